import json
from pathlib import Path

import pytest

from edgeformers.experiments.record import Record
from tests.experiments.records import KNOWN, edge_runs, lead, make_record

RECORDS = sorted((Path(__file__).parents[2] / "benchmarks" / "results").glob("*.json"))


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
    assert record.experiment == json.loads(path.read_text(encoding="utf-8"))["what"]
    assert set(record.row_names()) <= set(KNOWN)
    assert {entry.row for entry in record.entries} <= set(record.row_names())
    assert not any("beside" in text for row in record.rows for text in (row.name, row.title))
    assert not any("links.beside" in entry.settings for entry in record.entries)
