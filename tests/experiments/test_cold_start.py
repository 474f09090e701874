"""Cold start as an experiment: its rows, its split, its tables by group, its claims."""

import json

import pytest

from edgeformers.errors import InputError
from edgeformers.experiments.claims import OURS, check_claims
from edgeformers.experiments.claims_table import claim_lines, claims_markdown
from edgeformers.experiments.collect import flat_metrics
from edgeformers.experiments.model_rows import COLD_SPLIT, all_link_rows, split_rows
from edgeformers.experiments.plan import ExperimentOptions
from edgeformers.experiments.record import RECORD
from edgeformers.experiments.reproduce import reproduce
from edgeformers.experiments.tables import make_tables, table_specs
from tests.experiments.conftest import TINY
from tests.experiments.records import link_runs, make_record


def by_group(mrr, **groups):
    """A run by its MRR, and by that of groups of links."""
    found = link_runs(mrr)[0]
    for name, (value, links) in groups.items():
        group = name.replace("_", " ").replace("to", "-")
        found |= {f"full/mrr/{group}": value, f"links/{group}": links}
    return found


def measured(graph, out, *models, **settings):
    options = ExperimentOptions(
        recipe="fast",
        seeds=1,
        settings={**TINY, **settings},
        models=models,
        estimate=False,
        jobs=1,
    )
    return reproduce("cold-start", graph, out, options, show=False)


def test_cold_start_trains_scores_and_resumes(simulated, tmp_path):
    models = ("popularity", "ease", "als", "edgeformer-n", "edgeformer-n-ensemble")
    found = measured(simulated, tmp_path, *models)
    assert found.failures == []
    names = [table.name for table in found.tables]
    protocols = ("paper", "sampled", "full")
    assert {f"cold-start/test/{protocol}" for protocol in protocols} <= set(names)
    by_profile = found.tables[names.index("cold-start/test/full/profile")]
    assert [row.name for row in by_profile.rows] == [f"{name}-cold" for name in models]
    assert by_profile.notes[0].startswith("Links: ")
    runs = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert runs == sorted(f"{name}-cold" for name in models)
    before = (tmp_path / "cold-start" / RECORD).read_bytes()
    again = measured(simulated, tmp_path, *models)
    assert not again.plan.pending
    assert (tmp_path / "cold-start" / RECORD).read_bytes() == before


def test_every_row_is_scored_on_the_same_links(simulated, tmp_path):
    found = measured(simulated, tmp_path, "popularity", "ease", "bert-n")
    counts = [
        {name: value for name, value in entry.metrics["test"].items() if name.startswith("links/")}
        for entry in found.record.entries
    ]
    assert counts[0] == counts[1] == counts[2]
    assert counts[0]["links/cold"] == counts[0]["links/degree 0"] > 0
    leads = {(one.table, one.metric): one for one in found.record.comparisons}
    for group in ("profile 2-3", "profile 4+"):
        if links := counts[0][f"links/{group}"]:
            lead = leads["cold-start/test/full/profile", f"full/mrr/{group}"]
            assert lead.examples == links


def test_the_user_can_set_the_split(simulated, tmp_path):
    split = "cold-target:0.6/0.2/0.2+drop-source"
    found = measured(simulated, tmp_path, "popularity", **{"data.split": split})
    (run,) = found.plan.runs
    assert run.to_config().data.split == split
    assert run.row == run.path.parent.name == "popularity-cold"
    assert found.record.entries[0].metrics["test"]["links/warm"] == 0


def test_a_split_without_held_out_nodes_is_rejected(simulated, tmp_path):
    with pytest.raises(InputError, match="'link'"):
        measured(simulated, tmp_path, "popularity", **{"data.split": "link"})


def test_cold_rows_are_link_rows_on_another_split():
    rows = split_rows(all_link_rows(), "cold", COLD_SPLIT)
    assert {row.name for row in rows} >= {"ease-cold", "gin-cold", "edgeformer-n-ensemble-cold"}
    for row, cold in zip(all_link_rows(), rows, strict=True):
        assert cold.settings == {**row.settings, "data.split": COLD_SPLIT}
        assert (cold.model, cold.is_random, cold.title) == (row.model, row.is_random, row.title)


def test_metrics_include_mrr_and_size_of_each_group():
    found = {
        "full/mrr": 0.5,
        "groups": {"full": {"degree 1-3": {"pairs": 4, "metrics": {"mrr": 0.25, "ndcg": 0.3}}}},
    }
    groups = {"full/mrr/degree 1-3": 0.25, "links/degree 1-3": 4.0}
    assert flat_metrics(found) == {"full/mrr": 0.5, **groups}
    empty = {"groups": {"full": {"degree 0": {"pairs": 0, "metrics": {"mrr": float("nan")}}}}}
    assert flat_metrics(empty) == {"links/degree 0": 0.0}
    assert flat_metrics({"macro_f1": 0.5, "macro_f1_interval": [0.4, 0.6]}) == {"macro_f1": 0.5}


def test_a_group_table_shows_nonempty_groups_and_their_sizes():
    runs = {
        "popularity": [by_group(0.1, degree_1to3=(0.2, 7), degree_11_=(0.1, 1500))],
        "ease": [by_group(0.3, degree_1to3=(0.1, 7), degree_11_=(0.4, 1500))],
    }
    tables = {table.name: table for table in make_tables(make_record("link-prediction", runs))}
    table = tables["link-prediction/test/full/degree"]
    assert table.metric_names == ["degree 1-3"]
    assert [row.cells["full/mrr/degree 1-3"].value for row in table.rows] == [0.2, 0.1]
    assert [row.cells["full/mrr/degree 1-3"].mark for row in table.rows] == ["bold", "italic"]
    assert table.notes == ["Links: 7 degree 1-3."]


def test_records_without_groups_have_no_group_table():
    record = make_record("link-prediction", {"ease": link_runs(0.3)})
    assert not any("degree" in table.name for table in make_tables(record))


def test_cold_start_claims_are_checked_overall_and_by_group():
    runs = {
        "popularity-cold": [by_group(0.1, profile_1=(0.3, 5))],
        "edgeformer-n-cold": [by_group(0.2, profile_1=(0.2, 5))],
    }
    checked = check_claims(make_record("cold-start", runs))
    found = {
        (one.table, one.claim.text): (one.verdict, one.effect.value)
        for one in checked
        if one.claim.worse == ("popularity-cold",)
    }
    above = "Edgeformer-N outperforms popularity"
    assert found["cold-start/test/full", above] == ("holds", pytest.approx(0.1))
    verdict = found["cold-start/test/full/profile", above]
    assert verdict == ("does not hold", pytest.approx(-0.1))
    assert len(found) == 4  # three protocols, and the groups


def test_our_claims_are_not_attributed_to_the_paper():
    runs = {"popularity-cold": link_runs(0.1), "edgeformer-n-cold": link_runs(0.2)}
    checked = check_claims(make_record("cold-start", runs))
    assert {one.claim.section for one in checked} == {OURS}
    text = claims_markdown(checked)
    assert text.startswith("### Our claims beyond the paper\n")
    assert "What the paper claims" not in text
    assert not any("of the paper" in line for line in claim_lines(checked))


def test_queries_of_low_degree_have_their_own_claim():
    runs = {
        "ease": [by_group(0.5, degree_1to3=(0.1, 9))],
        "edgeformer-n-ensemble": [by_group(0.2, degree_1to3=(0.4, 9))],
    }
    (claim,) = [
        one
        for one in check_claims(make_record("as-shipped", runs))
        if one.claim.section == OURS and one.effect is not None
    ]
    assert (claim.table, claim.effect.sign) == ("as-shipped/links/test/full/degree", 1)
    assert claim.effect.what.endswith("over EASE in degree 1-3")


def test_baselines_are_scored_by_degree(simulated, tmp_path):
    options = ExperimentOptions(
        recipe="fast", seeds=1, settings=TINY, models=("popularity",), estimate=False, jobs=1
    )
    found = reproduce("as-shipped", simulated, tmp_path, options, show=False)
    written = json.loads((tmp_path / "as-shipped" / RECORD).read_text("utf-8"))
    metrics = written["entries"][0]["metrics"]["test"]
    told = {name for name in metrics if name.startswith("full/mrr/degree")}
    assert told
    spec = next(one for one in table_specs("as-shipped") if one.groups)
    table = next(one for one in found.tables if one.name == spec.name)
    assert set(table.metrics) == told
