from dataclasses import replace

import pytest

from edgeformers.experiments.claims import (
    OPTIONAL_ROWS,
    check_claims,
    claim_lines,
    claims_about,
    claims_list,
    claims_markdown,
    deciding_margins,
)
from edgeformers.experiments.published import published_table
from edgeformers.experiments.record import Entry
from edgeformers.experiments.reproduce import EXPERIMENTS
from tests.experiments.records import KNOWN, edge_runs, lead, link_runs, make_record


def verdicts(record, table):
    return {one.claim.text: one for one in check_claims(record) if one.table == table}


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


def test_claims_are_checked_with_popularity_correction_if_measured():
    def asked(runs):
        rows = {"netmf": runs(0.1), "edgeformer-n": runs(0.2)}
        return verdicts(make_record("link-prediction", rows), "link-prediction/test/paper-shifted")

    assert asked(link_runs) == {}
    found = asked(lambda mrr: [{**link_runs(mrr)[0], "paper-shifted/mrr": mrr}])
    assert found["Edgeformer-N outperforms every baseline"].verdict == "holds"


def test_a_claim_holds_by_its_smallest_margin():
    rows = {"tfidf": edge_runs(0.3), "bert": edge_runs(0.6), "edgeformer-e": edge_runs(0.62)}
    rows["tfidf"][0]["micro_f1"], rows["edgeformer-e"][0]["micro_f1"] = 0.4, 0.51
    found = verdicts(make_record(values=rows), "edge-classification/test")
    best = found["Edgeformer-E outperforms every baseline"]
    assert (best.verdict, best.compared) == ("holds", 4)
    assert best.margin == pytest.approx(0.01)
    assert best.weakest == "Edgeformer-E over BERT in Micro-F1"
    assert best.missing == 6
    for words in ("holds by the means (not tested)", "4.2 (a), A.3", "by +1.00", "6 of its rows"):
        assert words in str(best)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.001, 0.02, "holds"),
        (-0.002, 0.02, "not significant"),
        (-0.03, -0.001, "not significant"),  # pair by pair it is otherwise than by the means
    ],
)
def test_a_tested_lead_holds_only_if_its_interval_excludes_0(low, high, verdict):
    rows = {"bert-n": link_runs(0.2), "edgeformer-n": link_runs(0.21)}
    where = {"table": "link-prediction/test/full", "low": low, "high": high}
    tests = [
        lead("edgeformer-n", "bert-n", **where, metric="full/mrr"),
        lead("edgeformer-n", "bert-n", **where | {"low": 0.005, "high": 0.1}, metric="full/ndcg"),
    ]
    record = make_record("link-prediction", rows, claim_tests=tests)
    found = verdicts(record, "link-prediction/test/full")["Edgeformer-N outperforms every baseline"]
    assert found.verdict == verdict
    assert str(found).startswith(f"{verdict}: Edgeformer-N outperforms every baseline")
    assert f"in MRR by +0.0100 (95% interval {low:.4f} to {high:.4f})" in str(found)
    untested = verdicts(record, "link-prediction/test/sampled")
    assert untested["Edgeformer-N outperforms every baseline"].test is None


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(-0.2, -0.01, "does not hold"), (-0.2, 0.01, "not significant")],
)
def test_a_tested_loss_counts_only_if_its_interval_excludes_0(low, high, verdict):
    rows = {"tfidf": edge_runs(0.4), "tfidf-nodes": edge_runs(0.3, micro=0.6)}
    test = lead("tfidf-nodes", "tfidf", low=low, high=high)
    found = verdicts(make_record(values=rows, claim_tests=[test]), "edge-classification/test")
    claim = found["nodes help a bag of words: TF-IDF+nodes outperforms TF-IDF"]
    assert (claim.verdict, claim.test) == (verdict, test)


def test_the_closest_pair_by_each_metric_decides_and_is_listed_once():
    rows = {name: link_runs(mrr) for name, mrr in (("gin", 0.3), ("nenn", 0.1), ("bert-gin", 0.2))}
    rows["edgeformer-n"] = link_runs(0.25)
    rows["edgeformer-n"][0]["full/ndcg"] = 0.35
    calls = deciding_margins(make_record("link-prediction", rows))
    mine = [one for spec, one in calls if spec.name == "link-prediction/test/full"]
    keys = [(one.above, one.below, one.metric) for one in mine]
    assert keys == [
        ("edgeformer-n", "gin", "full/mrr"),
        ("edgeformer-n", "gin", "full/ndcg"),
        ("bert-gin", "gin", "full/mrr"),  # of two claims
        ("bert-gin", "gin", "full/ndcg"),
        ("nenn", "gin", "full/mrr"),
        ("nenn", "gin", "full/ndcg"),
    ]
    assert mine[0].value == pytest.approx(-0.05)
    timed = make_record(
        "efficiency", {"bert-gin": [{"2": 1.0}], "edgeformer-n": [{"2": 2.0}]}, part="train"
    )
    assert deciding_margins(timed) == []


def test_a_single_comparison_refutes_a_claim_and_a_tie_is_no_lead():
    rows = {"bert": edge_runs(0.6), "bert-nodes": edge_runs(0.7)}  # Micro-F1 is the same
    found = verdicts(make_record(values=rows), "edge-classification/test")
    claim = found["nodes help a language model: BERT+nodes outperforms BERT"]
    assert (claim.verdict, claim.margin) == ("does not hold", 0.0)


def test_an_unmeasured_claim_is_reported_as_such():
    found = verdicts(make_record(values={"bert": edge_runs(0.6)}), "edge-classification/test")
    claim = found["nodes help a bag of words: TF-IDF+nodes outperforms TF-IDF"]
    assert (claim.verdict, claim.margin) == ("not measured", None)
    assert str(claim).startswith("not measured: nodes help a bag of words")


def test_means_over_seeds_are_compared():
    rows = {"tfidf": edge_runs(0.1, 0.5), "tfidf-nodes": edge_runs(0.25, 0.31, micro=0.6)}
    found = verdicts(make_record(values=rows), "edge-classification/test")
    claim = found["nodes help a bag of words: TF-IDF+nodes outperforms TF-IDF"]
    assert claim.verdict == "does not hold"
    assert claim.margin == pytest.approx(-0.02)


def test_only_the_best_of_each_side_is_compared_if_the_claim_says_so():
    rows = {"gin": link_runs(0.3), "censnet": link_runs(0.1), "nenn": link_runs(0.35)}
    found = verdicts(make_record("link-prediction", rows), "link-prediction/test/full")
    claim = found["the best edge-aware GNN outperforms the best node-centric GNN"]
    assert (claim.verdict, claim.weakest) == ("holds", "NENN over GIN in MRR")


def test_less_time_is_better_and_time_grows_with_neighbors():
    times = {"bert-gin": [1, 2, 3, 4], "edgeformer-n": [2, 3, 2.5, 5]}
    entries = [
        Entry(row=row, seed=0, metrics={"train": dict(zip("2345", values, strict=True))})
        for row, values in times.items()
    ]
    record = make_record("efficiency", {"bert-gin": [], "edgeformer-n": []})
    found = verdicts(type(record)(**{**vars(record), "entries": entries}), "efficiency/train")
    close, nested, rising = list(found.values())
    assert (close.verdict, close.margin) == ("does not hold", 1.25 * 1 - 2)
    assert close.weakest == "Edgeformer-N over BERT+GIN with 2 neighbors"
    assert (nested.verdict, nested.margin) == ("does not hold", -0.5)
    assert (rising.verdict, rising.margin, rising.weakest) == ("does not hold", -0.5, "3 to 4")


def test_increasing_values_are_compared_step_by_step():
    record = make_record("node-dimension")
    rows = [(f"edgeformer-n-width-{n}", value) for n, value in ((4, 0.1), (8, 0.3), (64, 0.2))]
    entries = [Entry(row=name, seed=0, metrics={"test": link_runs(v)[0]}) for name, v in rows]
    info = make_record("link-prediction", {"edgeformer-n": []}).rows[0]
    infos = [replace(info, name=name, title=name.rpartition("-")[2]) for name, _ in rows]
    record = type(record)(**{**vars(record), "rows": infos, "entries": entries})
    (claim,) = verdicts(record, "node-dimension/test/full").values()
    assert claim.verdict == "does not hold"
    assert claim.weakest == "64 over 8 in MRR"


def test_an_ablated_token_is_named():
    rows = {"edgeformer-n": link_runs(0.3), "edgeformer-n-without-local": link_runs(0.2)}
    found = verdicts(make_record("ablation", rows), "ablation/links/test/full")
    claim = found["the neighbor text token helps: Edgeformer-N outperforms the model without it"]
    assert claim.weakest == "Edgeformer-N over the model without the neighbor text token in MRR"


@pytest.mark.parametrize(
    ("experiment", "dataset", "wrong"),
    [
        ("edge-classification", "amazon-movie", []),
        ("edge-classification", "amazon-apps", []),
        ("edge-classification", "goodreads-crime", []),
        ("edge-classification", "goodreads-children", []),
        ("ablation", "amazon-movie", []),
        ("ablation", "amazon-apps", ["the neighbor text token helps"]),
        ("link-prediction", "amazon-movie", ["BERT+CensNet outperforms CensNet"]),
        ("link-prediction", "goodreads-children", ["BERT+CensNet outperforms CensNet"]),
        (
            "link-prediction",
            "stackoverflow",
            ["BERT+CensNet outperforms CensNet", "the best edge-aware GNN with BERT"],
        ),
        ("node-classification", "amazon-movie", []),
        (
            "node-classification",
            "amazon-apps",  # by Macro-F1
            ["the best edge-aware GNN outperforms MF", "the best edge-aware GNN with BERT"],
        ),
        ("efficiency", "amazon-apps", []),
    ],
)
def test_the_paper_s_numbers_support_its_claims_with_known_exceptions(experiment, dataset, wrong):
    checked = check_claims(published_record(experiment, experiment, dataset))
    failed = {one.claim.text for one in checked if one.verdict == "does not hold"}
    assert len(failed) == len(wrong)
    assert all(any(text.startswith(start) for text in failed) for start in wrong)


@pytest.mark.parametrize(
    "experiment", [name for name in EXPERIMENTS if name not in ("node-dimension", "neighbor-size")]
)
def test_claims_name_existing_rows(experiment):
    for claim in claims_about(experiment):
        assert {*claim.better, *claim.worse} <= set(KNOWN)


def test_optional_rows_do_not_count_as_missing():
    rows = {
        "edgeformer-n-ensemble": [{"full/mrr/degree 1-3": 0.5, "links/degree 1-3": 7.0}],
        "popularity": [{"full/mrr/degree 1-3": 0.1, "links/degree 1-3": 7.0}],
    }
    [plain] = [claim for claim in claims_about("link-prediction") if claim.groups]
    assert "reciprocity" in plain.worse
    assert "reciprocity-cold" in OPTIONAL_ROWS
    assert set(plain.worse) - OPTIONAL_ROWS >= {"popularity", "lightgcn", "bert-n"}
    record = make_record("link-prediction", rows)
    [checked] = [one for one in check_claims(record) if one.claim == plain and one.margin]
    assert checked.missing == len(plain.worse) - 2  # all but popularity, and but reciprocity


def test_lines_list_measured_claims_and_markdown_all_claims():
    rows = {"tfidf": edge_runs(0.3), "tfidf-nodes": edge_runs(0.4, micro=0.6)}
    checked = check_claims(make_record(values=rows))
    lines = claim_lines(checked)
    assert len(lines) == 2
    assert lines[0].startswith("edge-classification/test: holds by the means (not tested)")
    assert lines[1] == "5 claims of the paper were not measured"
    assert claims_markdown(checked).startswith(
        "### What the paper claims\n\n`edge-classification/test`:\n\n- **not measured**: Edge"
    )
    assert claims_markdown(checked).count("\n- **holds** by the means (not tested): ") == 1
    assert claims_markdown(checked).count("\n- **not measured**: ") == 5
    assert claims_markdown([]) == claims_list([]) == ""
