"""The simulated network: reproducible, readable, and honest about its best scores."""

import hashlib
import itertools
import re
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from edgeformers.data.simulate import BestScores, EdgeScore, SimulationConfig, simulate
from edgeformers.data.simulate.best import BestRules, macro_f1, maximize_macro_f1
from edgeformers.data.simulate.links import taste_given_topics
from edgeformers.data.simulate.words import ASIDES, LINKS, REMARKS, STYLES, TOPICS, VERDICTS
from edgeformers.data.simulate.writer import format_ids
from edgeformers.errors import ConfigError, InputError

TINY = SimulationConfig(num_edges=500, num_sources=14, num_targets=19, topics=4, seed=3)
DENSE = SimulationConfig(num_edges=400_000, num_sources=30, num_targets=24, topics=3)

PRODUCTS = [name for topic in TOPICS for name in topic.products]
VERDICT_RUNG = {phrase: rung for rung, phrases in enumerate(VERDICTS) for phrase in phrases}
REMARK_RUNG = {phrase: rung for rung, phrases in enumerate(REMARKS) for phrase in phrases}
SENTENCE = re.compile(
    r"(?:(?:Bought it|Got this|Ordered it) (?P<occasion>[a-z' ]+)\. )?"
    rf"(?:The|This|My|Our new) (?P<product>{'|'.join(PRODUCTS)}) is "
    rf"(?P<verdict>{'|'.join(VERDICT_RUNG)})(?:{'|'.join(LINKS)}) (?P<part>[a-z]+) "
    rf"(?P<remark>{'|'.join(REMARK_RUNG)})\.(?P<asides>(?: [A-Z][a-z A-Z]+\.)*)"
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


def test_the_same_seed_gives_the_same_network_for_ever():
    table = simulate(num_edges=2_000, seed=11).table.to_arrow()
    assert table.equals(simulate(num_edges=2_000, seed=11).table.to_arrow())
    assert digest(table) == "496683c8f381b26d0d58fb0ebb0bec9a3ade8ddafbf5363d7265cf2fa50a055f"


def test_another_seed_gives_another_network():
    one, other = (simulate(num_edges=300, seed=seed) for seed in (0, 1))
    for column in ("source", "target", "text", "label", "time"):
        assert one.table.to_arrow()[column] != other.table.to_arrow()[column]
    assert one.nodes.to_arrow() != other.nodes.to_arrow()


def test_rows_do_not_depend_on_batch_size_or_order_of_reading():
    simulation = simulate(TINY)
    whole = simulation.table.to_arrow()
    for batch_rows in (1, 7, 500, 10_000):
        assert pa.Table.from_batches(simulation.stream(batch_rows)).equals(whole)
    late, early = simulation.rows(300, 310), simulation.rows(0, 10)
    assert pa.Table.from_batches([early, late]).equals(
        pa.concat_tables([whole.slice(0, 10), whole.slice(300, 10)])
    )
    assert [b.num_rows for b in simulation.stream(200)] == [200, 200, 100]


def test_the_end_of_a_huge_network_is_made_without_its_beginning():
    config = SimulationConfig(num_edges=10**9, num_sources=1000, num_targets=1000)
    last = simulate(config).rows(10**9 - 2, 10**9)
    assert last.num_rows == 2
    assert last["time"][0].as_py() < last["time"][1].as_py()
    assert last["time"][1].as_py().year == 2019


# --- readable ----------------------------------------------------------------------------------


def test_the_table_has_the_columns_of_an_edge_and_time_grows():
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
        said = SENTENCE.fullmatch(row["text"])
        assert said, row["text"]
        topic = topics[topic_of[row["target"]]]
        assert said["part"] in topic.products[said["product"]]
        assert said["occasion"] is None or said["occasion"] in topic.occasions
        assert product_of.setdefault(row["target"], said["product"]) == said["product"]


@pytest.mark.parametrize("mean_words", [12, 20, 45])
def test_texts_have_about_the_words_asked_for_and_no_aside_twice(mean_words):
    config = SimulationConfig(num_edges=3_000, mean_words=mean_words)
    texts = simulate(config).table.to_arrow()["text"].to_pylist()
    assert np.mean([len(text.split()) for text in texts]) == pytest.approx(mean_words, rel=0.05)
    assert all(text.count(aside) <= 1 for text in texts for aside in ASIDES)


def test_a_phrase_stands_on_one_rung_only():
    for ladder in (VERDICTS, REMARKS):
        phrases = [phrase for rung in ladder for phrase in rung]
        assert len(phrases) == len(set(phrases)) == 32
    assert len(PRODUCTS) == len(set(PRODUCTS)) == 48


def test_nodes_tell_the_style_of_sources_and_the_topic_of_targets():
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
        meanings[style[row["source"]], VERDICT_RUNG[verdict]].add(row["label"])
    assert meanings["reserved", VERDICT_RUNG["fine"]] == {"5"}
    assert meanings["measured", VERDICT_RUNG["fine"]] == {"4"}
    assert meanings["warm", VERDICT_RUNG["fine"]] == {"3"}


# --- drawn from the model it claims --------------------------------------------------------------


def chi_square(counts, chance):
    expected = chance * counts.sum()
    return ((counts - expected) ** 2 / expected).sum()


def test_ends_are_drawn_with_the_chances_the_model_states(dense):
    simulation, draws = dense
    model = simulation.model
    pairs = model.taste(np.arange(30))[:, model.topic] * model.target_chance()  # P(i | u)
    np.testing.assert_allclose(pairs.sum(axis=1), 1)
    joint = (model.source_chance()[:, None] * pairs).ravel()  # [30 * 24]
    counts = np.bincount(draws.source * 24 + draws.target, minlength=720)
    assert abs(chi_square(counts, joint) - 719) < 4.5 * np.sqrt(2 * 719)


def test_stars_and_rungs_are_drawn_with_the_chances_the_model_states(dense):
    simulation, draws = dense
    model = simulation.model
    for a, q in itertools.product(range(5), range(5)):
        here = (model.temper[draws.source] == a) & (model.quality[draws.target] == q)
        if here.any():
            counts = np.bincount(draws.stars[here], minlength=5)
            assert chi_square(counts, model.stars_table[a, q]) < 30  # 4 degrees of freedom
    for s, k in itertools.product(range(3), range(5)):
        here = (model.style[draws.source] == s) & (draws.stars == k)
        chance = model.rung_table[s, k]
        assert chance[s + k] == pytest.approx(0.9 + 0.05 * (s + k in (0, 6)), abs=1e-5)
        for rungs in (draws.verdict, draws.remark):
            counts = np.bincount(rungs[here], minlength=7)
            assert counts[chance == 0].sum() == 0
            assert chi_square(counts[chance > 0], chance[chance > 0]) < 25


def test_words_beside_the_phrases_tell_nothing_about_the_stars():
    rows = simulate(num_edges=20_000).table.to_arrow()
    labels = np.array(rows["label"].to_pylist(), dtype=int) - 1
    said = [SENTENCE.fullmatch(text) for text in rows["text"].to_pylist()]
    openings = np.array([match["occasion"] is None for match in said], dtype=int)
    subjects = np.array([match[0].find(match["product"]) % 4 for match in said])
    subjects = np.where(openings == 1, subjects, 4)
    lengths = np.array([len(match["verdict"]) % 2 for match in said])
    share = np.bincount(labels) / len(labels)
    for values in (openings, subjects):
        for value in np.unique(values):
            counts = np.bincount(labels[values == value], minlength=5)
            assert chi_square(counts, share) < 25  # 4 degrees of freedom
    by_length = np.bincount(labels[lengths == 0], minlength=5)
    assert chi_square(by_length, share) > 25  # the same test does see words that tell


def test_default_sizes_leave_every_source_enough_edges():
    rows = simulate(num_edges=20_000).table.to_arrow()
    counts = Counter(rows["source"].to_pylist())
    assert len(counts) == 800
    assert min(counts.values()) >= 3
    assert np.median(list(counts.values())) > 12
    assert max(counts.values()) > 500  # a few write much


# --- best scores ---------------------------------------------------------------------------------


def brute_force_joints(model):
    """P(cell, stars) for text, nodes and both, by plain loops over all pairs of nodes."""
    text, nodes, both = (defaultdict(float) for _ in range(3))
    taste, activity = model.taste(np.arange(14)), model.source_chance()
    popularity, rungs = model.target_chance(), range(7)
    for u, i in itertools.product(range(14), range(19)):
        s, a, q = int(model.style[u]), int(model.temper[u]), int(model.quality[i])
        pair = activity[u] * taste[u, model.topic[i]] * popularity[i]
        for k in range(5):
            mass = pair * model.stars_table[a, q, k]
            nodes[a, q, k] += mass
            for v, r in itertools.product(rungs, rungs):
                said = mass * model.rung_table[s, k, v] * model.rung_table[s, k, r]
                text[int(model.product[i]), v, r, k] += said
                both[s, a, q, v, r, k] += said
    return text, nodes, both


def test_the_enumerated_masses_equal_a_sum_over_all_pairs_of_nodes():
    model = simulate(TINY).model
    rules = BestRules(model)
    shapes = ((24, 7, 7, 5), (5, 5, 5), (3, 5, 5, 7, 7, 5))
    evidence = (rules.text, rules.nodes, rules.both)
    for expected, shape, found in zip(brute_force_joints(model), shapes, evidence, strict=True):
        table = np.zeros(shape)
        for cell, mass in expected.items():
            table[cell] = mass
        np.testing.assert_allclose(found.joint, table.reshape(-1, 5), atol=1e-12)
        assert found.joint.sum() == pytest.approx(1)


@pytest.mark.parametrize("seed", [0, 1])
def test_default_networks_need_both_text_and_nodes(seed):
    best = simulate(num_edges=20_000, seed=seed).best_scores()
    assert 0.45 < best.text.macro_f1 < 0.60
    assert 0.35 < best.nodes.macro_f1 < 0.50
    assert 0.93 < best.both.macro_f1 < 0.98
    assert max(best.text.accuracy, best.nodes.accuracy) < 0.6 < 0.93 < best.both.accuracy


def test_the_bayes_rule_scores_on_edges_what_enumeration_predicts(dense):
    simulation, draws = dense
    expected = simulation.best_scores()
    measured = simulation.best_scores(sample=DENSE.num_edges)
    for kind in ("text", "nodes", "both"):
        predicted, met = getattr(expected, kind), getattr(measured, kind)
        error = np.sqrt(predicted.accuracy * (1 - predicted.accuracy) / len(draws.stars))
        assert abs(met.accuracy - predicted.accuracy) < 4 * error
        assert met.macro_f1 == pytest.approx(predicted.macro_f1, abs=0.005)


def test_posteriors_are_calibrated(dense):
    simulation, draws = dense
    rules = BestRules(simulation.model)
    evidence = (rules.text, rules.nodes, rules.both)
    for found, cells in zip(evidence, rules.cells(draws), strict=True):
        posterior = found.joint[cells] / found.joint[cells].sum(axis=1, keepdims=True)
        hit = np.arange(5) == draws.stars[:, None]
        for low in np.arange(0, 1, 0.1):
            here = (posterior >= low) & (posterior < low + 0.1)
            if here.sum() > 1_000:
                error = 4 * 0.5 / np.sqrt(here.sum())
                assert abs(hit[here].mean() - posterior[here].mean()) < error


def count_rule(keys, stars, classes=5):
    """The most frequent class of every key: what counting can learn."""
    table = np.zeros((keys.max() + 1, classes))
    np.add.at(table, (keys, stars), 1)
    return table.argmax(axis=1)


def test_no_rule_learned_by_counting_beats_the_best_and_a_good_one_comes_close(dense):
    simulation, draws = dense
    best = simulation.best_scores()
    said = draws.verdict * 7 + draws.remark
    # What is read off the text itself: the product a review names and its two phrases.
    product = np.array([PRODUCTS.index(p) for p in read_products(simulation)])[draws.target]
    keys = {
        "text": [said, product * 49 + said],
        "nodes": [draws.source, draws.source * 24 + draws.target],
        "both": [draws.source * 49 + said, (draws.source * 24 + draws.target) * 49 + said],
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
    shifts = defaultdict(list)  # rung minus stars, from the text and the label alone
    for row in simulation.rows(0, 2_800).to_pylist():
        said = SENTENCE.fullmatch(row["text"])
        rung = (VERDICT_RUNG[said["verdict"]] + REMARK_RUNG[said["remark"]]) / 2
        shifts[row["source"]].append(rung - int(row["label"]))
    guess = {user: STYLES[round(np.median(found)) + 1] for user, found in shifts.items()}
    right = np.mean([guess[user] == style[user] for user in guess])
    assert right > 0.97


def test_macro_f1_is_maximized_as_well_as_by_trying_every_rule():
    rng = np.random.default_rng(0)
    for _ in range(20):
        joint = rng.dirichlet([0.6, 0.6, 0.6], size=6) * rng.random((6, 1))
        rules = itertools.product(range(3), repeat=6)
        best = max(macro_f1(joint, np.array(rule)) for rule in rules)
        found = macro_f1(joint, maximize_macro_f1(joint))
        assert found == pytest.approx(best, abs=1e-12)


def test_a_class_that_never_occurs_is_never_predicted():
    joint = np.array([[0.3, 0.2, 0.0], [0.2, 0.3, 0.0]])
    assert maximize_macro_f1(joint).tolist() == [0, 1]


def test_a_rule_that_leaves_a_rare_class_out_takes_it_in_for_macro_f1():
    joint = np.array([[0.50, 0.01], [0.10, 0.09], [0.30, 0.00]])
    assert joint.argmax(axis=1).tolist() == [0, 0, 0]
    assert maximize_macro_f1(joint).tolist() == [0, 1, 0]


def test_best_scores_of_chosen_edges_are_those_of_their_rows():
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


def test_less_ambiguous_settings_raise_the_score_they_should():
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
def test_link_scores_equal_those_of_the_full_matrix_of_chances(labels):
    simulation = simulate(TINY)
    model = simulation.model
    pairs = model.taste(np.arange(14))[:, model.topic] * model.target_chance()  # [14, 19]
    if labels:
        stars = [int(label) - 1 for label in labels]
        pairs *= model.stars_table[model.temper[:, None], model.quality][:, :, stars].sum(axis=2)
    draws = model.draw(np.arange(500))
    rows = simulation.table.to_arrow()["label"].to_pylist()
    asked = np.array([labels is None or label in labels for label in rows])
    source, target = draws.source[asked], draws.target[asked]

    found = simulation.best_link_scores(labels)
    assert (found.best.mrr, found.best.ndcg) == brute_force_gains(pairs[source], target)
    common = np.tile(model.source_chance() @ pairs, (len(target), 1))
    popularity = (found.popularity.mrr, found.popularity.ndcg)
    assert popularity == brute_force_gains(common, target)


def test_taste_ranks_better_than_popularity_and_than_counted_popularity():
    simulation = simulate(num_edges=20_000)
    found = simulation.best_link_scores()
    assert found.best.mrr > 1.5 * found.popularity.mrr
    draws = simulation.model.draw(np.arange(20_000))
    counts = np.bincount(draws.target[:15_000], minlength=1_000)
    rank = np.empty(1_000)
    rank[np.argsort(-counts, kind="stable")] = np.arange(1, 1_001)
    counted = (1 / rank[draws.target[15_000:]]).mean()
    limit = simulation.best_link_scores(sample=np.arange(15_000, 20_000)).popularity.mrr
    assert 0.6 * limit < counted < limit * 1.1


def test_a_source_without_interest_in_a_topic_never_meets_it():
    simulation = simulate(replace(TINY, taste=1.0))
    draws = simulation.model.draw(np.arange(500))
    topic = simulation.model.topic[draws.target]
    assert (simulation.model.favorites[draws.source] == topic[:, None]).any(axis=1).all()
    assert 0 < simulation.best_link_scores().best.mrr <= 1


def test_what_edges_tell_of_a_taste_is_worked_out_by_hand():
    """Of two topics a source likes one best: 62 % of its edges, .8 * .65 + .1, or 38 %."""
    model = simulate(replace(TINY, topics=2)).model
    once = 0.62 * 0.62 + 0.38 * 0.38
    twice = (0.62**3 + 0.38**3) / (0.62**2 + 0.38**2)
    told = taste_given_topics(model, np.array([[0, 0], [1, 0], [0, 2], [5, 5]]))
    expected = [[0.5, 0.5], [once, 1 - once], [1 - twice, twice], [0.5, 0.5]]
    np.testing.assert_allclose(told, expected)


@pytest.mark.parametrize("taste", [0.8, 1.0])
def test_many_edges_tell_the_taste_itself(taste):
    model = simulate(replace(TINY, taste=taste)).model
    own = model.taste(np.arange(14))
    np.testing.assert_allclose(taste_given_topics(model, np.round(2_000 * own)), own, atol=1e-9)


def test_with_one_topic_there_is_nothing_to_tell():
    model = simulate(replace(TINY, topics=1)).model
    np.testing.assert_allclose(taste_given_topics(model, np.array([[0], [3]])), 1)


def test_link_scores_print_as_a_small_table():
    lines = str(simulate(TINY).best_link_scores()).splitlines()
    assert lines[0] == "best possible       MRR      NDCG"
    assert [line.split()[0] for line in lines[1:]] == ["taste", "popularity"]


# --- settings ------------------------------------------------------------------------------------


def test_arguments_go_before_the_settings():
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
    ("settings", "words"),
    [
        ({"num_edges": 0}, "num_edges must be a whole number from 1 to 10000000000 (got 0)"),
        ({"num_edges": 2.5}, "simulation.num_edges must be a whole number from 1"),
        ({"num_edges": True}, "(got True)"),
        ({"num_sources": 0}, "simulation.num_sources must be a whole number from 1"),
        ({"num_targets": 7}, "num_targets must be a whole number from 8 (the number of topics)"),
        ({"seed": -1}, "simulation.seed must be a whole number from 0 to 18446744073709551615"),
        ({"classes": 6}, "simulation.classes must be a whole number from 2 to 5 (got 6)"),
        ({"styles": 5}, "simulation.styles must be a whole number from 1 to 4 (got 5)"),
        ({"mean_words": 3}, "simulation.mean_words must be a number from 10 to 60 (got 3)"),
        ({"slip": float("nan")}, "simulation.slip must be a number from 0 to 1 (got nan)"),
        ({"taste": "high"}, "simulation.taste must be a number from 0 to 1 (got 'high')"),
    ],
)  # fmt: skip
def test_a_setting_out_of_range_is_refused_by_name(settings, words):
    with pytest.raises(ConfigError, match=re.escape(words)):
        SimulationConfig(**settings)


def test_rows_and_samples_outside_the_network_are_refused():
    simulation = simulate(TINY)
    with pytest.raises(InputError, match=r"rows 400 to 501 cannot be made at once; .* 500 edges"):
        simulation.rows(400, 501)
    with pytest.raises(InputError, match=r"batch_rows must be from 1 to 1000000 \(got 0\)"):
        simulation.stream(0)
    with pytest.raises(InputError, match=r"sample must be at least 1 edge \(got 0\)"):
        simulation.best_scores(sample=0)
    for edges in ([500], [-1], [], [0.5]):
        with pytest.raises(InputError, match="edge numbers from 0 to 499, at least one"):
            simulation.best_scores(sample=edges)


def test_unknown_labels_are_refused():
    with pytest.raises(InputError, match="no label '6' here; the labels are 1, 2, 3, 4, 5"):
        simulate(TINY).best_link_scores(labels=["5", "6"])
    with pytest.raises(InputError, match="no edge in the sample has one of these labels"):
        simulate(TINY).best_link_scores(labels=[])
