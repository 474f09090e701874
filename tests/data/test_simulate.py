"""The simulated network is reproducible and readable, and its best scores are correct."""

import hashlib
import itertools
import re
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from edgeformers.data.simulate import (
    BestScores,
    EdgeScore,
    SimulationConfig,
    library_config,
    simulate,
)
from edgeformers.data.simulate.best import BestRules, maximize_macro_f1, rule_macro_f1
from edgeformers.data.simulate.config import load_scenario
from edgeformers.data.simulate.names import format_ids
from edgeformers.errors import ConfigError, InputError
from tests.data.topic_taste import taste_given_topics

TINY = SimulationConfig(num_edges=500, num_sources=14, num_targets=19, topics=4, seed=3)
DENSE = SimulationConfig(num_edges=400_000, num_sources=30, num_targets=24, topics=3)

WORDS = load_scenario("products")
ASIDES, STYLES, TOPICS = WORDS.asides, WORDS.styles, WORDS.topics
REMARKS, VERDICTS = WORDS.remarks, WORDS.verdicts
PRODUCTS = [name for topic in TOPICS for name in topic.products]
VERDICT_LEVEL = {phrase: level for level, phrases in enumerate(VERDICTS) for phrase in phrases}
REMARK_LEVEL = {phrase: level for level, phrases in enumerate(REMARKS) for phrase in phrases}
SENTENCE = re.compile(
    r"(?:(?:Bought it|Got this|Ordered it) (?P<occasion>[a-z' ]+)\. )?"
    rf"(?:The|This|My|Our new) (?P<product>{'|'.join(PRODUCTS)}) is "
    rf"(?P<verdict>{'|'.join(VERDICT_LEVEL)})(?:, the| and the|; the) (?P<part>[a-z]+) "
    rf"(?P<remark>{'|'.join(REMARK_LEVEL)})\.(?P<asides>(?: [A-Z][a-z A-Z]+\.)*)"
)


def digest(table: pa.Table) -> str:
    rows = "\n".join("|".join(map(str, row.values())) for row in table.to_pylist())
    return hashlib.sha256(rows.encode()).hexdigest()


@pytest.fixture(scope="module")
def dense():
    """A network of few nodes and many edges, where counting learns all there is to learn."""
    simulation = simulate(DENSE)
    return simulation, simulation.model.draw(np.arange(DENSE.num_edges))


# --- reproducible ------------------------------------------------------------------------------


def test_a_seed_always_gives_the_same_network():
    table = simulate(num_edges=2_000, seed=11).table.to_arrow()
    assert table.equals(simulate(num_edges=2_000, seed=11).table.to_arrow())
    assert digest(table) == "496683c8f381b26d0d58fb0ebb0bec9a3ade8ddafbf5363d7265cf2fa50a055f"


def test_another_seed_changes_every_column():
    one, other = (simulate(num_edges=300, seed=seed) for seed in (0, 1))
    for column in ("source", "target", "text", "label", "time"):
        assert one.table.to_arrow()[column] != other.table.to_arrow()[column]
    assert one.nodes.to_arrow() != other.nodes.to_arrow()


def test_rows_do_not_depend_on_batch_size_or_reading_order():
    simulation = simulate(TINY)
    table = simulation.table.to_arrow()
    for batch_rows in (60, 500, 10_000):
        assert pa.Table.from_batches(simulation.stream(batch_rows)).equals(table)
    late, early = simulation.rows(300, 310), simulation.rows(0, 10)
    assert pa.Table.from_batches([early, late]).equals(
        pa.concat_tables([table.slice(0, 10), table.slice(300, 10)])
    )
    assert [b.num_rows for b in simulation.stream(200)] == [200, 200, 100]


def test_the_end_of_a_huge_network_is_generated_without_its_beginning():
    config = SimulationConfig(num_edges=10**9, num_sources=1000, num_targets=1000)
    last = simulate(config).rows(10**9 - 2, 10**9)
    assert last.num_rows == 2
    assert last["time"][0].as_py() < last["time"][1].as_py()
    assert last["time"][1].as_py().year == 2019


# --- readable ----------------------------------------------------------------------------------


def test_the_table_has_the_columns_of_an_edge_in_order_of_time():
    table = simulate(TINY).table
    rows = table.to_arrow()
    assert rows.schema == table.schema
    assert rows.schema.names == ["source", "target", "text", "label", "time"]
    assert table.bipartite
    assert rows.num_rows == 500
    assert sum(column.null_count for column in rows.columns) == 0
    assert set(rows["label"].to_pylist()) == {"1", "2", "3", "4", "5"}
    assert (np.diff(rows["time"].to_numpy()).astype(int) > 0).all()
    assert all(re.fullmatch(r"user-\d{6}", s) for s in rows["source"].to_pylist())


def test_ids_are_padded_to_one_length_and_stay_distinct():
    assert format_ids("item", np.array([0, 999_999]), 1_000_000).to_pylist() == [
        "item-000000",
        "item-999999",
    ]
    numbers = np.array([0, 12, 3_000_000, 90_817_263])
    ids = format_ids("user", numbers, 100_000_000).to_pylist()
    assert ids == [f"user-{number:08}" for number in numbers]
    assert format_ids("user", numbers[:0], 5).to_pylist() == []


def test_every_text_is_a_review_of_its_item_in_words_of_its_topic():
    simulation = simulate(num_edges=3_000, seed=5)
    topic_of = {
        row["id"]: row["labels"][0]
        for row in simulation.nodes.to_arrow().to_pylist()
        if row["side"] == "target"
    }
    topics = {topic.name: topic for topic in TOPICS}
    product_of = {}
    for row in simulation.table.to_arrow().to_pylist():
        match = SENTENCE.fullmatch(row["text"])
        assert match, row["text"]
        topic = topics[topic_of[row["target"]]]
        assert match["part"] in topic.products[match["product"]]
        assert match["occasion"] is None or match["occasion"] in topic.occasions
        assert product_of.setdefault(row["target"], match["product"]) == match["product"]


@pytest.mark.parametrize("mean_words", [12, 20, 45])
def test_texts_have_about_the_requested_length_and_no_repeated_aside(mean_words):
    config = SimulationConfig(num_edges=3_000, mean_words=mean_words)
    texts = simulate(config).table.to_arrow()["text"].to_pylist()
    assert np.mean([len(text.split()) for text in texts]) == pytest.approx(mean_words, rel=0.05)
    assert all(text.count(aside) <= 1 for text in texts for aside in ASIDES)


def test_every_phrase_has_one_sentiment():
    for levels in (VERDICTS, REMARKS):
        phrases = [phrase for level in levels for phrase in level]
        assert len(phrases) == len(set(phrases)) == 32
    assert len(PRODUCTS) == len(set(PRODUCTS)) == 48


def test_node_labels_are_the_styles_of_sources_and_the_topics_of_targets():
    simulation = simulate(TINY)
    nodes = simulation.nodes.to_arrow().to_pylist()
    sources = [n for n in nodes if n["side"] == "source"]
    targets = [n for n in nodes if n["side"] == "target"]
    assert (len(sources), len(targets)) == (14, 19)
    assert {n["labels"][0] for n in sources} == set(STYLES[:3])
    assert {n["labels"][0] for n in targets} == {topic.name for topic in TOPICS[:4]}
    assert {n["id"] for n in nodes} >= set(simulation.table.to_arrow()["source"].to_pylist())


def test_styles_use_the_same_words_for_different_stars():
    simulation = simulate(SimulationConfig(num_edges=5_000, slip=0.0))
    style = {n["id"]: n["labels"][0] for n in simulation.nodes.to_arrow().to_pylist()}
    meanings = defaultdict(set)
    for row in simulation.table.to_arrow().to_pylist():
        verdict = SENTENCE.fullmatch(row["text"])["verdict"]
        meanings[style[row["source"]], VERDICT_LEVEL[verdict]].add(row["label"])
    assert meanings["reserved", VERDICT_LEVEL["fine"]] == {"5"}
    assert meanings["measured", VERDICT_LEVEL["fine"]] == {"4"}
    assert meanings["warm", VERDICT_LEVEL["fine"]] == {"3"}


# --- drawn from the model it claims --------------------------------------------------------------


def chi_square(counts, chance):
    expected = chance * counts.sum()
    return ((counts - expected) ** 2 / expected).sum()


def test_sources_and_targets_follow_the_probabilities_of_the_model(dense):
    simulation, draws = dense
    model = simulation.model
    pairs = model.taste(np.arange(30))[:, model.topic] * model.target_chance()  # P(i | u)
    np.testing.assert_allclose(pairs.sum(axis=1), 1)
    joint = (model.source_chance()[:, None] * pairs).ravel()  # [30 * 24]
    counts = np.bincount(draws.source * 24 + draws.target, minlength=720)
    assert abs(chi_square(counts, joint) - 719) < 4.5 * np.sqrt(2 * 719)


def test_stars_and_sentiments_follow_the_probabilities_of_the_model(dense):
    simulation, draws = dense
    model = simulation.model
    for a, q in itertools.product(range(5), range(5)):
        here = (model.temper[draws.source] == a) & (model.quality[draws.target] == q)
        if here.any():
            counts = np.bincount(draws.stars[here], minlength=5)
            assert chi_square(counts, model.stars_table[a, q]) < 30  # 4 degrees of freedom
    for s, k in itertools.product(range(3), range(5)):
        here = (model.style[draws.source] == s) & (draws.stars == k)
        chance = model.sentiment_table[s, k]
        assert chance[s + k] == pytest.approx(0.9 + 0.05 * (s + k in (0, 6)), abs=1e-5)
        for sentiments in (draws.verdict, draws.remark):
            counts = np.bincount(sentiments[here], minlength=7)
            assert counts[chance == 0].sum() == 0
            assert chi_square(counts[chance > 0], chance[chance > 0]) < 25


def test_words_outside_the_phrases_are_independent_of_the_stars():
    rows = simulate(num_edges=20_000).table.to_arrow()
    labels = np.array(rows["label"].to_pylist(), dtype=int) - 1
    matches = [SENTENCE.fullmatch(text) for text in rows["text"].to_pylist()]
    openings = np.array([match["occasion"] is None for match in matches], dtype=int)
    subjects = np.array([match[0].find(match["product"]) % 4 for match in matches])
    subjects = np.where(openings == 1, subjects, 4)
    lengths = np.array([len(match["verdict"]) % 2 for match in matches])
    share = np.bincount(labels) / len(labels)
    for values in (openings, subjects):
        for value in np.unique(values):
            counts = np.bincount(labels[values == value], minlength=5)
            assert chi_square(counts, share) < 25  # 4 degrees of freedom
    by_length = np.bincount(labels[lengths == 0], minlength=5)
    assert chi_square(by_length, share) > 25  # the same test does detect dependent words


def test_every_source_has_enough_edges_by_default():
    rows = simulate(num_edges=20_000).table.to_arrow()
    counts = Counter(rows["source"].to_pylist())
    assert len(counts) == 800
    assert min(counts.values()) >= 3
    assert np.median(list(counts.values())) > 12
    assert max(counts.values()) > 500  # a few are very active


# --- best scores ---------------------------------------------------------------------------------


def brute_force_joints(model):
    """P(cell, stars) for text, nodes and both, by plain loops over all pairs of nodes."""
    text, nodes, both = (defaultdict(float) for _ in range(3))
    taste, activity = model.taste(np.arange(14)), model.source_chance()
    popularity, sentiments = model.target_chance(), range(7)
    for u, i in itertools.product(range(14), range(19)):
        s, a, q = int(model.style[u]), int(model.temper[u]), int(model.quality[i])
        pair = activity[u] * taste[u, model.topic[i]] * popularity[i]
        for k in range(5):
            mass = pair * model.stars_table[a, q, k]
            nodes[a, q, k] += mass
            for v, r in itertools.product(sentiments, sentiments):
                share = mass * model.sentiment_table[s, k, v] * model.sentiment_table[s, k, r]
                text[int(model.product[i]), v, r, k] += share
                both[s, a, q, v, r, k] += share
    return text, nodes, both


def test_cell_probabilities_equal_a_sum_over_all_pairs_of_nodes():
    model = simulate(TINY).model
    rules = BestRules(model)
    shapes = ((24, 7, 7, 5), (5, 5, 5), (3, 5, 5, 7, 7, 5))
    kinds = (rules.text, rules.nodes, rules.both)
    for expected, shape, kind in zip(brute_force_joints(model), shapes, kinds, strict=True):
        table = np.zeros(shape)
        for cell, mass in expected.items():
            table[cell] = mass
        np.testing.assert_allclose(kind.joint, table.reshape(-1, 5), atol=1e-12)
        assert kind.joint.sum() == pytest.approx(1)


@pytest.mark.parametrize("seed", [0, 1])
def test_default_networks_need_both_text_and_nodes(seed):
    best = simulate(num_edges=20_000, seed=seed).best_scores()
    assert 0.45 < best.text.macro_f1 < 0.60
    assert 0.35 < best.nodes.macro_f1 < 0.50
    assert 0.93 < best.both.macro_f1 < 0.98
    assert max(best.text.accuracy, best.nodes.accuracy) < 0.6 < 0.93 < best.both.accuracy


def test_the_best_rules_score_on_edges_as_enumeration_predicts(dense):
    simulation, draws = dense
    expected = simulation.best_scores()
    measured = simulation.best_scores(sample=DENSE.num_edges)
    for kind in ("text", "nodes", "both"):
        predicted, actual = getattr(expected, kind), getattr(measured, kind)
        error = np.sqrt(predicted.accuracy * (1 - predicted.accuracy) / len(draws.stars))
        assert abs(actual.accuracy - predicted.accuracy) < 4 * error
        assert actual.macro_f1 == pytest.approx(predicted.macro_f1, abs=0.005)


def test_posteriors_are_calibrated(dense):
    simulation, draws = dense
    rules = BestRules(simulation.model)
    kinds = (rules.text, rules.nodes, rules.both)
    for kind, cells in zip(kinds, rules.cells(draws), strict=True):
        posterior = kind.joint[cells] / kind.joint[cells].sum(axis=1, keepdims=True)
        hit = np.arange(5) == draws.stars[:, None]
        for low in np.arange(0, 1, 0.1):
            here = (posterior >= low) & (posterior < low + 0.1)
            if here.sum() > 1_000:
                error = 4 * 0.5 / np.sqrt(here.sum())
                assert abs(hit[here].mean() - posterior[here].mean()) < error


def count_rule(keys, stars, classes=5):
    """The most frequent class of every key."""
    table = np.zeros((keys.max() + 1, classes))
    np.add.at(table, (keys, stars), 1)
    return table.argmax(axis=1)


def test_counting_comes_close_to_the_best_scores_and_never_beats_them(dense):
    simulation, draws = dense
    best = simulation.best_scores()
    phrases = draws.verdict * 7 + draws.remark
    # A text reveals the product and the two sentiments.
    product = np.array([PRODUCTS.index(p) for p in read_products(simulation)])[draws.target]
    keys = {
        "text": [phrases, product * 49 + phrases],
        "nodes": [draws.source, draws.source * 24 + draws.target],
        "both": [draws.source * 49 + phrases, (draws.source * 24 + draws.target) * 49 + phrases],
    }
    train, fresh = slice(0, 300_000), slice(300_000, None)
    for kind, options in keys.items():
        scores = []
        for key in options:
            rule = count_rule(np.append(key[train], key.max()), np.append(draws.stars[train], 0))
            scores.append((rule[key[fresh]] == draws.stars[fresh]).mean())
        limit = getattr(best, kind).accuracy
        assert max(scores) < limit + 3 * 0.5 / np.sqrt(100_000)
        assert max(scores) > limit - 0.02


def read_products(simulation):
    """The product of every target, from the texts alone."""
    rows = simulation.rows(0, 5_000)
    named = {
        target: SENTENCE.fullmatch(text)["product"]
        for target, text in zip(rows["target"].to_pylist(), rows["text"].to_pylist(), strict=True)
    }
    return [named[f"item-{number:06}"] for number in range(24)]


def test_a_users_style_can_be_inferred_from_its_training_edges():
    simulation = simulate(num_edges=4_000)
    style = {n["id"]: n["labels"][0] for n in simulation.nodes.to_arrow().to_pylist()}
    shifts = defaultdict(list)  # sentiment minus stars
    for row in simulation.rows(0, 2_800).to_pylist():
        match = SENTENCE.fullmatch(row["text"])
        sentiment = (VERDICT_LEVEL[match["verdict"]] + REMARK_LEVEL[match["remark"]]) / 2
        shifts[row["source"]].append(sentiment - int(row["label"]))
    guess = {user: STYLES[round(np.median(shift)) + 1] for user, shift in shifts.items()}
    right = np.mean([guess[user] == style[user] for user in guess])
    assert right > 0.97


def test_macro_f1_is_maximized_as_well_as_by_exhaustive_search():
    rng = np.random.default_rng(0)
    for _ in range(20):
        joint = rng.dirichlet([0.6, 0.6, 0.6], size=6) * rng.random((6, 1))
        rules = itertools.product(range(3), repeat=6)
        best = max(rule_macro_f1(joint, np.array(rule)) for rule in rules)
        assert rule_macro_f1(joint, maximize_macro_f1(joint)) == pytest.approx(best, abs=1e-12)


def test_a_class_that_never_occurs_is_never_predicted():
    joint = np.array([[0.3, 0.2, 0.0], [0.2, 0.3, 0.0]])
    assert maximize_macro_f1(joint).tolist() == [0, 1]


def test_maximizing_macro_f1_predicts_rare_classes_too():
    joint = np.array([[0.50, 0.01], [0.10, 0.09], [0.30, 0.00]])
    assert joint.argmax(axis=1).tolist() == [0, 0, 0]
    assert maximize_macro_f1(joint).tolist() == [0, 1, 0]


def test_best_scores_can_be_measured_on_given_edges():
    simulation = simulate(num_edges=3_000)
    edges = np.arange(100, 900)
    draws = simulation.model.draw(edges)
    ends = simulation.model.stars_table[
        simulation.model.temper[draws.source], simulation.model.quality[draws.target]
    ]
    hit = (ends.argmax(axis=1) == draws.stars).mean()
    assert simulation.best_scores(edges).nodes.accuracy == pytest.approx(hit)
    labels = simulation.rows(100, 900)["label"].to_pylist()
    assert [int(label) - 1 for label in labels] == draws.stars.tolist()


def test_less_ambiguous_settings_raise_the_matching_score():
    base = SimulationConfig(num_edges=20_000)
    best = simulate(base).best_scores()
    one_style = simulate(replace(base, styles=1)).best_scores()
    assert one_style.text.accuracy > 0.9 > 0.6 > best.text.accuracy
    calm = simulate(replace(base, surprise=0.3)).best_scores()
    assert calm.nodes.accuracy > best.nodes.accuracy + 0.2
    sure = simulate(replace(base, slip=0.0)).best_scores()
    assert sure.both.accuracy == pytest.approx(1)
    two = simulate(replace(base, classes=2)).table.to_arrow()
    assert set(two["label"].to_pylist()) == {"1", "2"}


def test_best_scores_print_as_a_small_table():
    scores = BestScores(EdgeScore(0.521, 0.515), EdgeScore(0.4, 0.45), EdgeScore(0.95, 0.94999))
    assert str(scores) == (
        "best possible  Macro-F1  Micro-F1\n"
        "text              52.10     51.50\n"
        "nodes             40.00     45.00\n"
        "text + nodes      95.00     95.00"
    )


# --- best links ----------------------------------------------------------------------------------


def brute_force_gains(chance, targets):
    """MRR and NDCG of ranking each row of chances, ties broken every way with equal weight."""
    mrr, ndcg = [], []
    for row, target in zip(chance, targets, strict=True):
        better = (row > row[target] * (1 + 1e-9)).sum()
        tied = (np.abs(row / row[target] - 1) <= 1e-9).sum()
        places = np.arange(better + 1, better + tied + 1)
        mrr.append((1 / places).mean())
        ndcg.append((1 / np.log2(1 + places)).mean())
    return pytest.approx((np.mean(mrr), np.mean(ndcg)))


@pytest.mark.parametrize("labels", [None, ("5",), ("4", "5")])
def test_link_scores_equal_those_of_the_full_probability_matrix(labels):
    simulation = simulate(TINY)
    model = simulation.model
    pairs = model.taste(np.arange(14))[:, model.topic] * model.target_chance()  # [14, 19]
    if labels:
        stars = [int(label) - 1 for label in labels]
        pairs *= model.stars_table[model.temper[:, None], model.quality][:, :, stars].sum(axis=2)
    draws = model.draw(np.arange(500))
    rows = simulation.table.to_arrow()["label"].to_pylist()
    is_query = np.array([labels is None or label in labels for label in rows])
    source, target = draws.source[is_query], draws.target[is_query]

    scores = simulation.best_link_scores(labels)
    assert (scores.best.mrr, scores.best.ndcg) == brute_force_gains(pairs[source], target)
    common = np.tile(model.source_chance() @ pairs, (len(target), 1))
    popularity = (scores.popularity.mrr, scores.popularity.ndcg)
    assert popularity == brute_force_gains(common, target)


@pytest.mark.parametrize("labels", [None, ("4", "5")])
def test_filtered_link_scores_leave_out_the_other_links_of_a_source(labels):
    simulation = simulate(TINY)
    model, draws = simulation.model, simulation.model.draw(np.arange(500))
    pairs = model.taste(np.arange(14))[:, model.topic] * model.target_chance()  # [14, 19]
    if labels:
        pairs *= model.stars_table[model.temper[:, None], model.quality][:, :, 3:].sum(axis=2)
        draws = draws.where(draws.stars >= 3)
    is_linked = np.zeros(pairs.shape, bool)
    is_linked[draws.source, draws.target] = True
    queries = draws.where(np.arange(len(draws.source)) % 9 == 0)  # some edges of the network
    numbers = np.flatnonzero(model.draw(np.arange(500)).stars >= (3 if labels else 0))[::9]
    chances = np.where(is_linked, -1.0, pairs)[queries.source]  # last, so as good as removed
    rows = np.arange(len(chances))
    chances[rows, queries.target] = pairs[queries.source, queries.target]

    best = simulation.best_link_scores(labels, numbers, filtered=True).best
    assert (best.mrr, best.ndcg) == brute_force_gains(chances, queries.target)
    assert best.mrr > simulation.best_link_scores(labels, numbers).best.mrr


def test_taste_ranks_better_than_popularity_and_than_counted_popularity():
    simulation = simulate(num_edges=20_000)
    scores = simulation.best_link_scores()
    assert scores.best.mrr > 1.5 * scores.popularity.mrr
    draws = simulation.model.draw(np.arange(20_000))
    counts = np.bincount(draws.target[:15_000], minlength=1_000)
    rank = np.empty(1_000)
    rank[np.argsort(-counts, kind="stable")] = np.arange(1, 1_001)
    counted = (1 / rank[draws.target[15_000:]]).mean()
    limit = simulation.best_link_scores(sample=np.arange(15_000, 20_000)).popularity.mrr
    assert 0.6 * limit < counted < limit * 1.1


def test_with_taste_one_a_source_has_edges_to_its_favorite_topics_only():
    simulation = simulate(replace(TINY, taste=1.0))
    draws = simulation.model.draw(np.arange(500))
    topic = simulation.model.topic[draws.target]
    assert (simulation.model.favorites[draws.source] == topic[:, None]).any(axis=1).all()
    assert 0 < simulation.best_link_scores().best.mrr <= 1


def test_taste_given_topics_worked_by_hand():
    """With two topics, the favorite has 62% (.8 * .65 + .1) of the edges, the other 38%."""
    model = simulate(replace(TINY, topics=2)).model
    once = 0.62 * 0.62 + 0.38 * 0.38
    twice = (0.62**3 + 0.38**3) / (0.62**2 + 0.38**2)
    taste = taste_given_topics(model, np.array([[0, 0], [1, 0], [0, 2], [5, 5]]))
    expected = [[0.5, 0.5], [once, 1 - once], [1 - twice, twice], [0.5, 0.5]]
    np.testing.assert_allclose(taste, expected)


@pytest.mark.parametrize("taste", [0.8, 1.0])
def test_many_edges_reveal_the_taste(taste):
    model = simulate(replace(TINY, taste=taste)).model
    own = model.taste(np.arange(14))
    np.testing.assert_allclose(taste_given_topics(model, np.round(2_000 * own)), own, atol=1e-9)


def test_a_network_of_one_topic_works():
    simulation = simulate(replace(TINY, topics=1, mean_words=20))
    assert simulation.table.to_arrow().num_rows == 500
    np.testing.assert_allclose(taste_given_topics(simulation.model, np.array([[0], [3]])), 1)


def test_link_scores_print_as_a_small_table():
    lines = str(simulate(TINY).best_link_scores()).splitlines()
    assert lines[0] == "best possible       MRR      NDCG"
    assert [line.split()[0] for line in lines[1:]] == ["taste", "popularity"]


# --- settings ------------------------------------------------------------------------------------


def test_arguments_override_the_settings():
    simulation = simulate(TINY, num_edges=77, seed=8)
    assert simulation.config == replace(TINY, num_edges=77, seed=8)
    assert simulate().config == SimulationConfig()
    assert "num_edges=77" in repr(simulation)
    assert simulation.table.origin == "simulation of 77 edges, seed 8"


@pytest.mark.parametrize("num_edges", [1, 10, 1_000])
def test_small_networks_work_too(num_edges):
    simulation = simulate(num_edges=num_edges)
    assert simulation.table.to_arrow().num_rows == num_edges
    assert simulation.best_scores().both.accuracy > 0.9
    assert simulation.best_link_scores().best.mrr > 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_edges", 0),
        ("num_edges", 2.5),
        ("num_edges", True),
        ("num_sources", 0),
        ("num_targets", 7),  # fewer than topics
        ("seed", -1),
        ("classes", 6),
        ("styles", 5),
        ("mean_words", 3),
        ("slip", float("nan")),
        ("taste", "high"),
    ],
)
def test_a_setting_out_of_range_is_named_with_its_value(name, value):
    with pytest.raises(ConfigError, match=re.escape(f"simulation.{name}") + f".*{value!r}"):
        SimulationConfig(**{name: value})


def test_rows_and_samples_outside_the_network_are_rejected():
    simulation = simulate(TINY)
    with pytest.raises(InputError, match="500 edges"):
        simulation.rows(400, 501)
    with pytest.raises(InputError, match="batch_rows"):
        simulation.stream(0)
    for sample in (0, [500], [-1], [], [0.5]):
        with pytest.raises(InputError, match="sample"):
            simulation.best_scores(sample=sample)


def test_unknown_labels_are_rejected():
    with pytest.raises(InputError, match="'6'"):
        simulate(TINY).best_link_scores(labels=["5", "6"])
    with pytest.raises(InputError, match="labels"):
        simulate(TINY).best_link_scores(labels=[])


# --- the library -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def library():
    return simulate(library_config(3_000, seed=2))


def test_a_seed_always_gives_the_same_library(library):
    table = library.table.to_arrow()
    assert digest(table) == "0e8c261e4ea28b53b449cbff4dc9a347a45bc2ca8974adb41458dbcf5110dbe5"
    assert pa.Table.from_batches(library.stream(700)).equals(table)


def test_people_and_books_have_names_of_their_own():
    simulation = simulate(library_config(30_000))  # more people and titles than there are names
    nodes = simulation.nodes.to_arrow().to_pylist()
    for side in ("source", "target"):
        names = [node["id"] for node in nodes if node["side"] == side]
        assert len(names) == len(set(names))
    ids = {(node["side"], node["id"]) for node in nodes}
    rows = simulation.rows(0, 500).to_pylist()
    assert all(("source", r["source"]) in ids and ("target", r["target"]) in ids for r in rows)


def test_a_note_names_the_kind_of_its_book_and_has_the_words_of_its_level(library):
    words = load_scenario("library")
    kinds = {kind: topic.name for topic in words.topics for kind in topic.products}
    topic_of = {node["id"]: node["labels"][0] for node in library.nodes.to_arrow().to_pylist()}
    draws = library.model.draw(np.arange(3_000))
    for row, level in zip(library.table.to_arrow().to_pylist(), draws.verdict, strict=True):
        named = [kind for kind in kinds if f" {kind} is " in row["text"]]
        assert [kinds[kind] for kind in named] == [topic_of[row["target"]]]
        assert any(f" is {phrase}" in row["text"] for phrase in words.verdicts[level])


def test_the_library_has_a_full_and_distinct_vocabulary():
    words = load_scenario("library")
    for levels in (words.verdicts, words.remarks):
        phrases = [phrase for level in levels for phrase in level]
        assert len(phrases) == len(set(phrases)) == 7 * 6
    kinds = [kind for topic in words.topics for kind in topic.products]
    assert len(words.topics) == 20
    assert len(kinds) == len(set(kinds)) == 120
    assert all(len(set(p)) == 3 for topic in words.topics for p in topic.products.values())
    nouns = [noun for topic in words.topics for noun in topic.nouns]
    assert len(nouns) == len(set(nouns))


def test_favorable_notes_of_the_library_have_no_negative_words(library):
    """So that reasons for recommendations are praise, whoever wrote them."""
    stars = library.model.draw(np.arange(3_000))
    negative = np.arange(7) < 3
    favorable = stars.stars >= 3
    share = negative[stars.verdict[favorable]].mean()
    assert share < 0.02  # slips of reserved readers


def test_in_the_library_neither_text_nor_nodes_suffice(library):
    best = library.best_scores()
    assert best.text.macro_f1 < 0.6
    assert best.nodes.macro_f1 < 0.5
    assert best.both.macro_f1 > 0.9


@pytest.mark.parametrize(
    "wrong", [{"scenario": "films"}, {"topics": 9}, {"scenario": "library", "styles": 4}]
)
def test_settings_beyond_a_scenario_are_rejected(wrong):
    with pytest.raises(ConfigError, match=list(wrong)[-1]):
        SimulationConfig(**wrong)
