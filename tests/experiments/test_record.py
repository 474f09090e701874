import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from edgeformers.aliases import MODELS_0_1
from edgeformers.experiments.model_rows import ROWS
from edgeformers.experiments.record import Record
from tests.experiments.records import KNOWN, edge_runs, lead, link_runs, make_record

RECORDS = sorted((Path(__file__).parents[2] / "benchmarks" / "results").glob("*.json"))
STUDY = re.compile(r"-(width|neighbors)-\d+$")  # rows of the studies of a setting


def test_a_record_is_read_as_it_was_written(tmp_path):
    values = {"bert": edge_runs(0.600), "edgeformer-e": edge_runs(0.625)}
    leads = [lead("edgeformer-e", "bert")]
    record = make_record(values=values, comparisons=leads, claim_tests=leads)
    path = tmp_path / "record.json"
    record.write(path)
    assert Record.read(path) == record
    older = json.loads(path.read_text())
    del older["claim_tests"]
    path.write_text(json.dumps(older))
    assert Record.read(path).claim_tests == []


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_records_of_earlier_versions_are_read_with_current_names(path):
    record = Record.read(path)
    written = json.loads(path.read_text(encoding="utf-8"))
    assert record.experiment == written.get("what", written.get("experiment"))
    renamed = {name for name, _ in MODELS_0_1.values()}
    names = {
        STUDY.sub("", re.sub("-(cold|rolling|chronological)$", "", name))
        for name in record.row_names()
    }
    assert names <= {*KNOWN, *renamed}
    assert {entry.row for entry in record.entries} <= set(record.row_names())
    assert not any("beside" in text for row in record.rows for text in (row.name, row.title))
    assert not any("links.beside" in entry.settings for entry in record.entries)


@pytest.mark.parametrize("suffix", ["", "-cold"])
def test_rows_of_version_1_have_the_names_of_what_they_were(suffix, tmp_path):
    """In 0.1, MF was ALS, and node-centric GNNs read bags of words."""
    old = {"als": "MF", "mean-sage": "MeanSAGE", "ehgnn": "EHGNN", "nenn": "NENN"}
    names = [name + suffix for name in old]
    record = make_record("link-prediction", {"nenn": link_runs(0.2)})
    values = json.loads(json.dumps(asdict(record)))
    values |= {
        "version": 1,
        "rows": [
            {"name": name, "title": title, "group": "gnn", "task": "link-prediction"}
            for name, title in zip(names, old.values(), strict=True)
        ],
        "entries": [{"row": name, "seed": 0, "metrics": {}} for name in names],
        "comparisons": [asdict(lead("mean-sage" + suffix, "als" + suffix))],
    }
    path = tmp_path / "record.json"
    path.write_text(json.dumps(values))
    read = Record.read(path)
    expected = ["als", "mean-sage-words", "ehgnn-nodes", "nenn"]
    expected = [name + suffix for name in expected]
    assert read.row_names() == [entry.row for entry in read.entries] == expected
    assert list(read.titles.values()) == ["ALS", "MeanSAGE+words", "EHGNN+nodes", "NENN"]
    assert (read.comparisons[0].best, read.comparisons[0].second) == (expected[1], expected[0])
    read.write(path)
    assert Record.read(path) == read
    record.write(path)
    assert Record.read(path).titles == {"nenn": "NENN"}


def test_renamed_rows_have_the_titles_of_current_rows():
    current = {name: title for name, title in MODELS_0_1.values() if name in ROWS}
    assert current == {name: ROWS[name].title for name in current}
    assert "mean-sage-words" in current
