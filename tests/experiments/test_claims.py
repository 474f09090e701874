import pytest

from edgeformers.experiments.claims import CLAIMS, check_claims, claim_lines, claims_text
from edgeformers.experiments.published import published_table
from edgeformers.experiments.record import Entry
from tests.experiments.records import KNOWN, edge_runs, link_runs, make_record


def verdicts(record, table):
    return {one.claim.text: one for one in check_claims(record) if one.table == table}


def published_record(table, what, dataset):
    """The paper's own numbers as a record."""
    cells = published_table(table).cells[dataset]
    protocols = (
        ("paper/", "sampled/", "full/") if what in ("link-prediction", "ablation") else ("",)
    )
    values = {
        row: [{f"{p}{name}": one.value for p in protocols for name, one in metrics.items()}]
        for row, metrics in cells.items()
    }
    return make_record(what, values, part="train" if what == "efficiency" else "test")


def test_a_claim_holds_by_its_smallest_margin():
    rows = {"tfidf": edge_runs(0.3), "bert": edge_runs(0.6), "edgeformer-e": edge_runs(0.62)}
    rows["edgeformer-e"][0]["micro_f1"] = 0.51
    found = verdicts(make_record(values=rows), "edge-classification/test")
    best = found["Edgeformer-E is above every baseline"]
    assert (best.verdict, best.compared) == ("holds", 4)
    assert best.margin == pytest.approx(0.01)
    assert best.weakest == "edgeformer-e over bert in micro_f1"
    assert best.missing == 6
    assert str(best) == (
        "holds: Edgeformer-E is above every baseline (4.2 (a), A.3); smallest margin +0.0100, "
        "edgeformer-e over bert in micro_f1, of 4 compared; 6 of its rows not measured"
    )


def test_a_claim_fails_by_a_single_comparison_and_a_tie_is_no_lead():
    rows = {"bert": edge_runs(0.6), "bert-nodes": edge_runs(0.7)}  # Micro-F1 is the same
    found = verdicts(make_record(values=rows), "edge-classification/test")
    claim = found["nodes help a language model: BERT+nodes is above BERT"]
    assert (claim.verdict, claim.margin) == ("does not hold", 0.0)


def test_what_was_not_measured_is_said():
    found = verdicts(make_record(values={"bert": edge_runs(0.6)}), "edge-classification/test")
    claim = found["nodes help a bag of words: TF-IDF+nodes is above TF-IDF"]
    assert (claim.verdict, claim.margin) == ("not measured", None)
    assert str(claim).startswith("not measured: nodes help a bag of words")


def test_means_over_seeds_are_compared():
    rows = {"tfidf": edge_runs(0.1, 0.5), "tfidf-nodes": edge_runs(0.25, 0.31, micro=0.6)}
    found = verdicts(make_record(values=rows), "edge-classification/test")
    claim = found["nodes help a bag of words: TF-IDF+nodes is above TF-IDF"]
    assert claim.verdict == "does not hold"
    assert claim.margin == pytest.approx(-0.02)


def test_the_best_of_a_group_speaks_for_it():
    rows = {"gin": link_runs(0.3), "censnet": link_runs(0.1), "nenn": link_runs(0.35)}
    found = verdicts(make_record("link-prediction", rows), "link-prediction/test/full")
    claim = found["the best edge-aware GNN is above the best node-centric one"]
    assert (claim.verdict, claim.weakest) == ("holds", "nenn over gin in full/mrr")


def test_less_time_is_better_and_time_rises():
    times = {"bert-gin": [1, 2, 3, 4], "edgeformer-n": [2, 3, 2.5, 5]}
    entries = [
        Entry(row=row, seed=0, metrics={"train": dict(zip("2345", values, strict=True))})
        for row, values in times.items()
    ]
    record = make_record("efficiency", {"bert-gin": [], "edgeformer-n": []})
    found = verdicts(type(record)(**{**vars(record), "entries": entries}), "efficiency/train")
    nested, rising = list(found.values())
    assert (nested.verdict, nested.margin) == ("does not hold", -0.5)
    assert (rising.verdict, rising.margin, rising.weakest) == ("does not hold", -0.5, "3 to 4")


def test_a_setting_that_is_raised_is_compared_step_by_step():
    record = make_record("node-dimension")
    rows = [(f"edgeformer-n-width-{n}", value) for n, value in ((4, 0.1), (8, 0.3), (64, 0.2))]
    entries = [Entry(row=name, seed=0, metrics={"test": link_runs(v)[0]}) for name, v in rows]
    info = make_record("link-prediction", {"edgeformer-n": []}).rows[0]
    infos = [type(info)(**{**vars(info), "name": name}) for name, _ in rows]
    record = type(record)(**{**vars(record), "rows": infos, "entries": entries})
    (claim,) = verdicts(record, "node-dimension/test/full").values()
    assert claim.verdict == "does not hold"
    assert claim.weakest == "edgeformer-n-width-64 over edgeformer-n-width-8 in full/mrr"


@pytest.mark.parametrize(
    ("what", "dataset", "wrong"),
    [
        ("edge-classification", "amazon-movie", []),
        ("edge-classification", "amazon-apps", []),
        ("edge-classification", "goodreads-crime", []),
        ("edge-classification", "goodreads-children", []),
        ("ablation", "amazon-movie", []),
        ("ablation", "amazon-apps", ["the neighbor text token helps"]),
        ("link-prediction", "amazon-movie", ["BERT+CensNet is above CensNet"]),
        ("link-prediction", "stackoverflow", ["BERT+CensNet is above CensNet"]),
        ("node-classification", "amazon-apps", []),
        ("efficiency", "amazon-apps", []),
    ],
)
def test_the_papers_own_numbers_bear_out_its_claims_but_for_known_ones(what, dataset, wrong):
    checked = check_claims(published_record(what, what, dataset))
    failed = {one.claim.text for one in checked if one.verdict == "does not hold"}
    assert len(failed) == len(wrong)
    assert all(any(text.startswith(start) for text in failed) for start in wrong)


def test_claims_name_rows_that_there_are():
    studied = ("node-dimension", "neighbor-size")
    named = {row for c in CLAIMS if c.what not in studied for row in (*c.better, *c.worse)}
    assert named <= set(KNOWN)


def test_lines_count_what_was_not_measured_and_markdown_has_all():
    rows = {"tfidf": edge_runs(0.3), "tfidf-nodes": edge_runs(0.4, micro=0.6)}
    checked = check_claims(make_record(values=rows))
    lines = claim_lines(checked)
    assert len(lines) == 2
    assert lines[0].startswith("edge-classification/test: holds: nodes help a bag of words")
    assert lines[1] == "4 claims of the paper were not measured"
    assert claims_text(checked).count("\n- `edge-classification/test`: ") == 5
    assert claims_text([]) == ""
