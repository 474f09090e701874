import math
from dataclasses import replace

import pytest

from edgeformers.experiments.tables import make_tables, table_specs
from tests.experiments.records import edge_runs, lead, link_runs, make_record


def only_table(record, name="edge-classification/test"):
    return {table.name: table for table in make_tables(record)}[name]


def test_cells_are_means_and_sample_deviations_over_seeds():
    table = only_table(make_record(values={"bert": edge_runs(0.60, 0.62, 0.67)}))
    (row,) = table.rows
    cell = row.cells["macro_f1"]
    assert cell.value == pytest.approx(63.0)
    assert cell.deviation == pytest.approx(100 * math.sqrt((9 + 1 + 16) / 2 / 1e4))
    assert row.runs == 3


def test_one_run_has_no_deviation():
    table = only_table(make_record(values={"bert": edge_runs(0.6)}))
    assert table.rows[0].cells["macro_f1"].deviation is None


def test_the_best_is_bold_and_the_second_in_italics():
    values = {"tfidf": edge_runs(0.3), "bert": edge_runs(0.6), "edgeformer-e": edge_runs(0.5)}
    table = only_table(make_record(values=values))
    marks = {row.name: row.cells["macro_f1"].mark for row in table.rows}
    assert marks == {"tfidf": "", "bert": "bold", "edgeformer-e": "italic"}
    assert {row.cells["micro_f1"].mark for row in table.rows} == {"bold"}  # all are equal


def test_a_single_row_is_not_marked():
    table = only_table(make_record(values={"bert": edge_runs(0.6)}))
    assert table.rows[0].cells["macro_f1"].mark == ""


def test_fewer_milliseconds_are_better():
    runs = {"bert-gin": [{"2": 15.5}], "edgeformer-n": [{"2": 18.7}]}
    table = only_table(make_record("efficiency", runs, part="train"), "efficiency/train")
    assert [row.cells["2"].mark for row in table.rows] == ["bold", "italic"]


def test_published_numbers_are_shown_for_a_dataset_of_the_paper():
    record = make_record(values={"bert": edge_runs(0.6)}, dataset="amazon-apps")
    (row,) = only_table(record).rows
    assert row.published["macro_f1"].value == pytest.approx(59.11)
    assert not only_table(make_record(values={"bert": edge_runs(0.6)})).has_published("macro_f1")


def test_another_network_has_the_leads_of_the_paper_instead():
    values = {"bert": edge_runs(0.6)}
    table = only_table(make_record(values=values, reference="amazon-apps"))
    assert not table.has_published("macro_f1")
    assert table.notes == [
        "This network is not Amazon-Apps, so published numbers are not shown. In the paper, on "
        "Amazon-Apps, Edgeformer-E is 0.95 above BERT+nodes in Macro-F1 and 0.46 above "
        "BERT+nodes in Micro-F1 (the best baseline)."
    ]
    known = make_record(values=values, dataset="amazon-apps", reference="amazon-apps")
    assert not only_table(known).notes
    links = make_record("link-prediction", {"als": link_runs(0.1)}, reference="stackoverflow")
    assert len(only_table(links, "link-prediction/test/paper").notes) == 1
    assert not only_table(links, "link-prediction/test/full").notes


def test_only_the_protocol_of_the_paper_has_published_numbers():
    record = make_record("link-prediction", {"netmf": link_runs(0.1)}, dataset="amazon-apps")
    tables = {table.name: table for table in make_tables(record)}
    assert list(tables) == [f"link-prediction/test/{p}" for p in ("paper", "sampled", "full")]
    assert tables["link-prediction/test/paper"].rows[0].published["paper/mrr"].value == 0.1482
    assert not tables["link-prediction/test/paper"].has_published("paper/hit@10")
    assert not tables["link-prediction/test/full"].has_published("full/mrr")


def test_ranks_with_popularity_correction_have_a_table_if_measured():
    runs = [{**run, "paper-shifted/mrr": 0.3} for run in link_runs(0.1, 0.2)]
    record = make_record("link-prediction", {"netmf": runs}, dataset="amazon-apps")
    table = {table.name: table for table in make_tables(record)}[
        "link-prediction/test/paper-shifted"
    ]
    assert table.rows[0].cells["paper-shifted/mrr"].value == pytest.approx(0.3)
    assert not table.has_published("paper-shifted/mrr")
    assert "popularity" in table.title


def test_validation_has_its_own_published_table():
    runs = {"netmf": link_runs(0.1)}
    record = make_record("link-prediction", runs, dataset="amazon-apps", part="val")
    table = only_table(record, "link-prediction/val/paper")
    assert table.rows[0].published["paper/mrr"].value == 0.1523


def test_an_ablation_has_tables_for_edges_and_for_links():
    values = {"edgeformer-e": edge_runs(0.5), "edgeformer-n": link_runs(0.3)}
    names = [table.name for table in make_tables(make_record("ablation", values))]
    assert names == ["ablation/edges/test", "ablation/links/test/paper", "ablation/links/test/full"]


def test_a_lead_is_noted_with_its_interval():
    values = {"bert": edge_runs(0.600), "edgeformer-e": edge_runs(0.625)}
    record = make_record(values=values, comparisons=[lead("edgeformer-e", "bert")])
    assert only_table(record).notes == [
        "Macro-F1: Edgeformer-E leads BERT by 2.50 (95% interval 1.00 to 4.00, p = 0.0012, 1,500 "
        "examples)."
    ]


def test_the_noted_leader_is_ahead_on_pairs_even_if_not_on_batches():
    values = {"netmf": link_runs(0.30), "gin": link_runs(0.31)}
    where = {"table": "link-prediction/test/paper", "metric": "paper/mrr"}
    gap = lead("gin", "netmf", **where, difference=-0.0036, low=-0.011, high=0.0034)
    record = make_record("link-prediction", values, comparisons=[gap])
    assert only_table(record, "link-prediction/test/paper").notes == [
        "MRR: MF leads GIN by 0.0036 (95% interval -0.0034 to 0.0110, p = 0.0012, 1,500 examples).",
        "Leads are means over pairs; the table shows means over batches.",
    ]


def test_facts_describe_data_settings_cost_and_failures():
    record = make_record(
        values={"bert": edge_runs(0.6, 0.61)}, failures=["Failed: bert-nodes, seed 0: no memory"]
    )
    assert only_table(record).facts == [
        "net: 1,200 nodes, 34,567 edges; recipe default, backbone minilm; mean ± deviation over "
        "up to 2 seeds.",
        "2 runs on cpu: 3 min in total (wall times; runs may share it).",
        "Failed: bert-nodes, seed 0: no memory",
    ]


def test_gpu_and_cpu_time_are_reported_separately():
    record = make_record(values={"tfidf": edge_runs(0.3), "bert": edge_runs(0.6, 0.61)})
    tfidf, *bert = record.entries
    on_gpu = [replace(one, device="NVIDIA H200", seconds=3600.0) for one in bert]
    table = only_table(replace(record, entries=[tfidf, *on_gpu]))
    assert table.facts[1:] == [
        "1 run on cpu: 90 s in total (wall times; runs may share it).",
        "2 runs on NVIDIA H200: 120 GPU minutes in total (wall times; runs may share it).",
    ]


def probed(seeds, probes):
    """A record of node classification, one entry per regression."""
    record = make_record("node-classification", {"netmf": [{"macro_f1": 0.5}] * seeds})
    entries = [
        replace(entry, seconds=0.0 if number else 90.0)
        for entry in record.entries
        for number in range(probes)
    ]
    return replace(record, entries=entries)


def test_regressions_are_reported_but_not_counted_as_runs():
    table = only_table(probed(2, 3), "node-classification")
    assert table.rows[0].runs == 2
    assert table.facts[0].endswith(
        "; mean ± deviation over up to 2 seeds and 3 regressions per run."
    )
    assert table.facts[1] == "2 runs on cpu: 3 min in total (wall times; runs may share it)."
    one = only_table(probed(1, 3), "node-classification")
    assert one.facts[0].endswith("; one seed, mean ± deviation over 3 regressions per run.")


@pytest.mark.parametrize("experiment", ["embedding-plot", "attention-map"])
def test_figures_have_no_tables(experiment):
    assert table_specs(experiment) == []
