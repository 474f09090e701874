import math
from dataclasses import replace

import pytest

from edgeformers.experiments.claims import (
    OPTIONAL_ROWS,
    check_claims,
    claimed_pairs,
    claims_about,
)
from edgeformers.experiments.claims_table import (
    claim_lines,
    claim_values,
    claims_markdown,
    claims_table,
    network_claims,
)
from edgeformers.experiments.published import published_table
from edgeformers.experiments.record import Entry, Measurement, RowInfo
from edgeformers.experiments.reproduce import EXPERIMENTS
from tests.experiments.records import KNOWN, edge_runs, lead, link_runs, make_record


def by_id(record, table):
    return {one.claim.id: one for one in check_claims(record) if one.table == table}


def published_record(table, experiment, dataset):
    """The paper's own numbers as a record."""
    cells = published_table(table).cells[dataset]
    protocols = (
        ("paper/", "sampled/", "full/") if experiment in ("link-prediction", "ablation") else ("",)
    )
    values = {
        row: [{f"{p}{name}": one.value for p in protocols for name, one in metrics.items()}]
        for row, metrics in cells.items()
    }
    return make_record(experiment, values, part="train" if experiment == "efficiency" else "test")


def study(experiment, scores):
    """A record of a varied setting: {value: [score of each seed]}, the same by every metric."""
    record = make_record(experiment)
    rows = [
        RowInfo(name=f"row-{x}", title=str(x), group="ours", task="link-prediction") for x in scores
    ]
    entries = [
        Entry(row=f"row-{x}", seed=seed, metrics={"test": link_runs(score)[0]})
        for x, runs in scores.items()
        for seed, score in enumerate(runs)
    ]
    return replace(record, rows=rows, entries=entries)


def test_claims_are_checked_with_popularity_correction_if_measured():
    def asked(runs):
        rows = {"gin": runs(0.1), "edgeformer-n": runs(0.2)}
        return by_id(make_record("link-prediction", rows), "link-prediction/test/paper-shifted")

    assert asked(link_runs) == {}
    found = asked(lambda mrr: [{**link_runs(mrr)[0], "paper-shifted/mrr": mrr}])
    assert found["links-best"].effect.sign == 1


def test_a_claim_holds_by_its_smallest_margin():
    rows = {"tfidf": edge_runs(0.3), "bert": edge_runs(0.6), "edgeformer-e": edge_runs(0.62)}
    rows["tfidf"][0]["micro_f1"], rows["edgeformer-e"][0]["micro_f1"] = 0.4, 0.51
    rows |= {"tfidf-nodes": edge_runs(0.4, micro=0.4), "bert-nodes": edge_runs(0.5, micro=0.4)}
    best = by_id(make_record(values=rows), "edge-classification/test")["edges-best"]
    assert (best.verdict, best.compared, best.missing) == ("holds", 8, 0)
    assert best.effect.value == pytest.approx(0.01)
    assert best.effect.what == "Edgeformer-E over BERT in Micro-F1"
    for words in ("holds by the means (not tested)", "4.2 (a)", "+1.00"):
        assert words in str(best)


def test_a_claim_about_all_rows_does_not_hold_before_all_are_measured():
    def asked(**scores):
        rows = {row.replace("_", "-"): edge_runs(one, micro=one) for row, one in scores.items()}
        return by_id(make_record(values=rows), "edge-classification/test")["edges-best"]

    most = {"tfidf": 0.3, "bert": 0.5, "bert_nodes": 0.55}
    missing = asked(**most, edgeformer_e=0.6)
    assert (missing.verdict, missing.missing) == ("cannot be tested", 1)
    assert "1 of its rows" in str(missing)
    assert asked(**most, tfidf_nodes=0.4, edgeformer_e=0.6).verdict == "holds"
    assert asked(**most, edgeformer_e=0.4).verdict == "does not hold"  # one comparison is enough


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.001, 0.02, "holds"),
        (-0.002, 0.02, "not significant"),
        (-0.03, -0.001, "not significant"),  # pair by pair it is otherwise than by the means
    ],
)
def test_a_tested_lead_holds_only_if_its_interval_excludes_0(low, high, verdict):
    pair = ("edgeformer-n", "edgeformer-n-without-local")
    rows = {pair[0]: link_runs(0.21), pair[1]: link_runs(0.2)}
    where = {"table": "ablation/links/test/full", "low": low, "high": high}
    tests = [
        lead(*pair, **where, metric="full/mrr"),
        lead(*pair, **where | {"low": 0.005, "high": 0.1}, metric="full/ndcg"),
    ]
    record = make_record("ablation", rows, claim_tests=tests)
    found = by_id(record, "ablation/links/test/full")["ablation-local"]
    assert found.verdict == verdict
    assert f"in MRR: +0.0100 (95% interval {low:.4f} to {high:.4f})" in str(found)
    untested = by_id(record, "ablation/links/test/paper")["ablation-local"]
    assert not untested.effect.is_tested


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(-0.2, -0.01, "does not hold"), (-0.2, 0.01, "not significant")],
)
def test_a_tested_loss_counts_only_if_its_interval_excludes_0(low, high, verdict):
    rows = {"tfidf": edge_runs(0.4), "tfidf-nodes": edge_runs(0.3, micro=0.6)}
    test = lead("tfidf-nodes", "tfidf", low=low, high=high, seeds=3)
    found = by_id(make_record(values=rows, claim_tests=[test]), "edge-classification/test")
    claim = found["edges-nodes"]
    assert (claim.verdict, claim.effect.low, claim.effect.high) == (verdict, low, high)
    assert claim.effect.covers_seeds


def test_without_tests_on_examples_seeds_are_tested():
    def asked(*scores):
        runs = {"bert-nodes": edge_runs(0.50, 0.52, 0.54)}
        record = make_record(values=runs | {"edgeformer-e": edge_runs(*scores, micro=0.6)})
        return by_id(record, "edge-classification/test")["edges-virtual-tokens"]

    found, clear = asked(0.53, 0.55, 0.57), asked(0.63, 0.65, 0.67)
    assert (found.verdict, clear.verdict) == ("not significant", "holds")
    assert (clear.effect.seeds, clear.effect.covers_seeds) == (3, True)


def test_one_seed_of_a_random_row_cannot_be_tested_by_seeds():
    runs = {"bert-nodes": edge_runs(0.50, 0.52), "edgeformer-e": edge_runs(0.7, micro=0.6)}
    found = by_id(make_record(values=runs), "edge-classification/test")["edges-virtual-tokens"]
    assert (found.verdict, found.effect.seeds, found.effect.is_tested) == ("holds", 1, False)


def test_all_pairs_of_a_claim_are_to_be_tested():
    rows = {name: link_runs(mrr) for name, mrr in (("gin", 0.3), ("nenn", 0.1), ("bert-gin", 0.2))}
    rows["edgeformer-n"] = link_runs(0.25)
    record = make_record("link-prediction", rows)
    pairs = [
        pairs
        for spec, metric, pairs in claimed_pairs(record)
        if (spec.name, metric) == ("link-prediction/test/full", "full/mrr")
    ]
    mine = [(("edgeformer-n",), (other,)) for other in ("gin", "nenn", "bert-gin")]
    assert [set(one) for one in pairs] == [
        set(mine),
        {(("bert-gin",), ("gin",))},  # the best of each family
        {(("bert-gin",), ("gin", "nenn"))},  # their means
        {(("nenn",), ("gin",))},
    ]


def test_families_are_compared_by_their_best_and_by_their_means():
    rows = {"gin": link_runs(0.2), "nenn": link_runs(0.3)}
    rows |= {"bert-gin": link_runs(0.35), "bert-censnet": link_runs(0.1)}
    table = "link-prediction/test/full"
    claim = by_id(make_record("link-prediction", rows), table)["links-language-models"]
    assert claim.verdict == "does not hold"
    assert claim.effect.what == "the mean of 2 models over the mean of 2 models in MRR"
    assert claim.effect.value == pytest.approx(-0.025)
    rows["bert-censnet"] = link_runs(0.2)
    claim = by_id(make_record("link-prediction", rows), table)["links-language-models"]
    assert claim.effect.sign == 1


def test_one_edge_aware_family_is_enough_after_a_correction():
    rows = {"gin": link_runs(0.2), "nenn": link_runs(0.3)}
    rows |= {"bert-gin": link_runs(0.4), "bert-nenn": link_runs(0.3)}
    where = {"table": "link-prediction/test/full", "seeds": 3}
    loss = {"low": -0.2, "high": -0.05, "p_value": 0.001}

    def verdict(p_value):
        tests = [
            lead(*pair, **where, **values, metric=f"full/{metric}")
            for metric in ("mrr", "ndcg")
            for pair, values in (
                (("nenn", "gin"), {"p_value": p_value}),
                (("bert-nenn", "bert-gin"), loss),
            )
        ]
        record = make_record("link-prediction", rows, claim_tests=tests)
        return by_id(record, "link-prediction/test/full")["links-edge-aware"]

    assert verdict(0.01).verdict == "holds"
    assert verdict(0.01).effect.what == "NENN over GIN in MRR"
    assert verdict(0.04).effect.sign == 0  # of two sides, the p-value counts twice


def test_a_claim_about_any_family_does_not_fail_before_all_are_measured():
    def asked(**rows):
        runs = {row.replace("_", "-"): link_runs(mrr) for row, mrr in rows.items()}
        record = make_record("link-prediction", runs)
        return by_id(record, "link-prediction/test/full")["links-edge-aware"].verdict

    assert asked(gin=0.2, nenn=0.3) == "holds"
    assert asked(gin=0.2, nenn=0.1) == "cannot be tested"


def test_a_single_comparison_refutes_a_claim_and_a_tie_is_no_lead():
    rows = {"bert": edge_runs(0.6), "bert-nodes": edge_runs(0.7)}  # Micro-F1 is the same
    claim = by_id(make_record(values=rows), "edge-classification/test")["edges-nodes"]
    assert (claim.verdict, claim.effect.value) == ("does not hold", 0.0)


def test_a_claim_without_results_or_without_a_test_says_so():
    found = by_id(make_record(values={"bert": edge_runs(0.6)}), "edge-classification/test")
    assert (found["edges-nodes"].verdict, found["edges-nodes"].effect) == ("cannot be tested", None)
    assert found["edges-nodes"].reason == "not measured"
    assert found["edges-homophily"].verdict == "cannot be tested"
    assert "isolates" in str(found["edges-homophily"])


def times(**rows):
    entries = [
        Entry(row=row, seed=0, metrics={"train": dict(zip("2345", values, strict=True))})
        for row, values in ((name.replace("_", "-"), values) for name, values in rows.items())
    ]
    return replace(make_record("efficiency", {entry.row: [] for entry in entries}), entries=entries)


def test_linear_means_a_line_through_the_times():
    rising = times(edgeformer_n=[2, 3, 4, 5.1])
    jumping = times(edgeformer_n=[2, 2.1, 2.2, 8])
    falling = times(edgeformer_n=[5, 4, 3, 2])
    found = [by_id(one, "efficiency/train")["time-linear"] for one in (rising, jumping, falling)]
    assert [one.verdict for one in found] == ["holds", "does not hold", "does not hold"]
    assert found[0].effect.value == pytest.approx(1.03)
    assert "R² = 0.99" in found[0].effect.what


def test_close_times_are_tested_by_their_ratio():
    record = times(bert_gin=[10, 20, 30, 40], edgeformer_n=[11, 22, 36, 44])
    found = by_id(record, "efficiency/train")
    assert (found["time-close"].effect.sign, found["time-close"].effect.shown) == (1, "1.20×")
    assert found["time-close"].effect.what == "Edgeformer-N to BERT+GIN with 4 neighbors"
    assert found["time-nested"].effect.sign == 1
    test = lead("edgeformer-n", "bert-gin", table="efficiency/train", metric="4")
    unsure = replace(record, claim_tests=[replace(test, difference=0.2, low=0.1, high=0.3)])
    assert by_id(unsure, "efficiency/train")["time-close"].verdict == "not significant"
    slow = times(bert_gin=[10, 20, 30, 40], edgeformer_n=[13, 22, 36, 44])
    assert by_id(slow, "efficiency/train")["time-close"].verdict == "does not hold"
    fast = times(bert_gin=[10, 20, 30, 40], edgeformer_n=[9, 22, 36, 44])
    assert by_id(fast, "efficiency/train")["time-nested"].verdict == "does not hold"
    assert by_id(fast, "efficiency/inference") == {}


def test_a_trend_may_have_a_dip_but_not_vanish():
    grows = {4: [0.10, 0.11], 8: [0.14, 0.15], 16: [0.13, 0.14], 32: [0.17, 0.18]}
    flat = {4: [0.10, 0.13], 8: [0.14, 0.11], 16: [0.13, 0.10], 32: [0.11, 0.14]}
    falls = {x: [1 - y for y in ys] for x, ys in grows.items()}
    found = [
        by_id(study("node-dimension", one), "node-dimension/test/paper")["dimension-grows"]
        for one in (grows, flat, falls)
    ]
    assert [one.verdict for one in found] == ["holds", "not significant", "does not hold"]
    assert found[0].effect.value == pytest.approx(0.02)  # per doubling
    assert (found[0].effect.seeds, found[0].effect.covers_seeds) == (2, True)


def test_growth_that_slows_down_has_a_negative_curvature():
    log = {n: [math.log(n), math.log(n) + 0.01] for n in (2, 3, 4, 5, 6, 8)}
    line = {n: [0.1 * n, 0.1 * n + 0.01] for n in log}
    square = {n: [0.1 * n * n, 0.1 * n * n + 0.01] for n in log}
    found = [
        by_id(study("neighbor-size", one), "neighbor-size/test/paper")
        for one in (log, line, square)
    ]
    assert [one["neighbors-grow"].verdict for one in found] == ["holds"] * 3
    assert [one["neighbors-slow-down"].verdict for one in found] == [
        "holds",
        "not significant",
        "does not hold",
    ]


def test_measurements_of_models_are_claims_of_their_own():
    def asked(**values):
        measured = Measurement(name="virtual-minus-text", examples=200, **values)
        record = make_record("attention-map", measurements=[measured])
        (claim,) = check_claims(record)
        return claim

    assert asked(value=0.1, low=0.05, high=0.2).verdict == "holds"
    assert asked(value=0.1, low=-0.05, high=0.2).verdict == "not significant"
    assert asked(value=-0.1, low=-0.2, high=-0.05).verdict == "does not hold"
    (claim,) = check_claims(make_record("attention-map"))
    assert claim.verdict == "cannot be tested"


def test_an_ablated_token_is_named():
    rows = {"edgeformer-n": link_runs(0.3), "edgeformer-n-without-local": link_runs(0.2)}
    found = by_id(make_record("ablation", rows), "ablation/links/test/full")["ablation-local"]
    assert found.effect.what == "Edgeformer-N over the model without the neighbor text token in MRR"


@pytest.mark.parametrize(
    ("experiment", "dataset", "wrong"),
    [
        *(("edge-classification", name, []) for name in ("amazon-movie", "amazon-apps")),
        *(("edge-classification", f"goodreads-{name}", []) for name in ("crime", "children")),
        ("ablation", "amazon-movie", []),
        ("ablation", "amazon-apps", ["ablation-local"]),  # as the paper says
        *(("link-prediction", name, []) for name in ("amazon-movie", "amazon-apps")),
        *(("link-prediction", f"goodreads-{name}", []) for name in ("crime", "children")),
        ("link-prediction", "stackoverflow", []),
        ("node-classification", "amazon-movie", []),
        ("node-classification", "amazon-apps", ["nodes-edge-aware"]),  # by Macro-F1
        ("efficiency", "amazon-apps", []),
    ],
)
def test_the_paper_s_numbers_support_its_claims(experiment, dataset, wrong):
    checked = check_claims(published_record(experiment, experiment, dataset))
    failed = {one.claim.id for one in checked if one.verdict == "does not hold"}
    assert failed == set(wrong)


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_claims_name_existing_rows_and_have_distinct_ids(experiment):
    claims = claims_about(experiment)
    assert len({claim.id for claim in claims}) == len(claims)
    for claim in claims:
        assert set(claim.rows) <= set(KNOWN)


def test_optional_rows_do_not_count_as_missing():
    rows = {
        "edgeformer-n-ensemble": [{"full/mrr/degree 1-3": 0.5, "links/degree 1-3": 7.0}],
        "popularity": [{"full/mrr/degree 1-3": 0.1, "links/degree 1-3": 7.0}],
    }
    [plain] = [claim for claim in claims_about("as-shipped") if claim.groups]
    assert "reciprocity" in plain.rows
    assert "reciprocity-cold" in OPTIONAL_ROWS
    record = make_record("as-shipped", rows)
    [checked] = [one for one in check_claims(record) if one.claim == plain and one.effect]
    assert checked.missing == len(plain.rows) - 3  # all but the two rows and reciprocity


def test_lines_list_tested_claims_and_markdown_all_claims():
    rows = {"tfidf": edge_runs(0.3), "tfidf-nodes": edge_runs(0.4, micro=0.6)}
    checked = check_claims(make_record(values=rows))
    lines = claim_lines(checked)
    assert len(lines) == 2
    assert lines[0].startswith("edge-classification/test: cannot be tested: ")
    assert lines[1] == "6 claims of the paper could not be tested"
    markdown = claims_markdown(checked)
    assert markdown.startswith("### What the paper claims\n\n`edge-classification/test`:\n\n| cl")
    assert markdown.count("| **cannot be tested** |") == 6
    assert claims_markdown([]) == claims_table([]) == ""


def test_a_network_has_one_table_of_claims():
    edges = make_record(values={"bert": edge_runs(0.5, 0.52), "bert-nodes": edge_runs(0.6, 0.61)})
    test = lead("edgeformer-n", "gin", table="link-prediction/test/paper", metric="paper/mrr")
    runs = {"gin": link_runs(0.1), "edgeformer-n": link_runs(0.2)}
    links = make_record("link-prediction", runs, claim_tests=[replace(test, seeds=1)])
    checked = network_claims([edges, links])
    paper = [c for e in EXPERIMENTS for c in claims_about(e) if c.section != "ours"]
    assert sorted(one.claim.id for one in checked) == sorted(claim.id for claim in paper)
    found = {one.claim.id: one for one in checked}
    assert found["links-best"].table == "link-prediction/test/paper"
    assert found["time-linear"].reason == "not run"
    text = claims_table(checked)
    assert text.count("\n|") == len(checked) + 1
    assert "| 1* |" in text
    assert "not other seeds" in text
    values = claim_values(found["links-best"])
    assert (values["verdict"], values["seeds"]) == ("cannot be tested", 1)
    assert not values["covers_seeds"]
    assert values["interval"] == [0.01, 0.04]
