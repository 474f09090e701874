from pathlib import Path

import pytest

from edgeformers.errors import FormatError, InputError
from edgeformers.experiments.documents import BLOCK, render_document, update_document
from tests.experiments.records import edge_runs, link_runs, make_record

ROOT = Path(__file__).parents[2]
TABLE = "<!-- table: {} from results/apps.json -->\n{}<!-- end -->"
CLAIMS = "<!-- claims: {} from results/apps.json -->\n{}<!-- end -->"


@pytest.fixture
def root(tmp_path):
    rows = {"tfidf": edge_runs(0.3, micro=0.4), "bert": edge_runs(0.6)}
    make_record(values=rows).write(tmp_path / "results" / "apps.json")
    return tmp_path


def test_the_tables_of_the_results_page_are_rendered_when_the_site_is_built():
    text = (ROOT / "docs" / "results_tables.md").read_text(encoding="utf-8")
    assert [block["name"] for block in BLOCK.finditer(text) if block["body"]] == []
    rendered = render_document(text, ROOT)
    assert all("\n|---" in block["body"] for block in BLOCK.finditer(rendered))


def test_a_table_is_rendered_from_its_record(root):
    text = "# Results\n\n" + TABLE.format("edge-classification/test", "old\n") + "\n\nMore.\n"
    rendered = render_document(text, root)
    assert rendered.startswith("# Results\n\n<!-- table: ")
    assert rendered.endswith("<!-- end -->\n\nMore.\n")
    assert "| BERT | **60.00** | **50.00** |" in rendered
    assert "old" not in rendered
    assert render_document(rendered, root) == rendered


def test_claims_are_rendered_from_their_record(root):
    rendered = render_document(CLAIMS.format("edge-classification/test", "old\n"), root)
    assert rendered.count("| **cannot be tested** |") == 6
    assert render_document(rendered, root) == rendered


def test_the_claims_of_a_network_are_one_table_from_several_records(root):
    rows = {"gin": link_runs(0.1), "edgeformer-n": link_runs(0.2)}
    make_record("link-prediction", rows).write(root / "results" / "links.json")
    block = "<!-- claims: full from results/apps.json results/links.json -->\n<!-- end -->"
    rendered = render_document(block, root)
    assert rendered.count("| claim |") == 1
    assert "Edgeformer-N over GIN in MRR" in rendered
    assert "not run" in rendered
    assert render_document(rendered, root) == rendered


@pytest.mark.parametrize(
    ("block", "heading"),
    [(TABLE, "### Edge classification, test part\n\n| "), (CLAIMS, "### What the paper claims\n")],
)
def test_the_name_of_the_record_stands_for_all_its_tables_or_claims(root, block, heading):
    assert heading in render_document(block.format("apps", ""), root)


def test_a_document_is_written_only_if_it_changes(root):
    path = root / "results.md"
    path.write_text(TABLE.format("edge-classification/test", ""))
    assert update_document(path, root)
    before = path.stat().st_mtime_ns
    assert not update_document(path, root)
    assert path.stat().st_mtime_ns == before


def test_a_document_without_blocks_does_not_change(root):
    text = "# Results\n<!-- a remark -->\n"
    assert render_document(text, root) == text


@pytest.mark.parametrize("block", [TABLE, CLAIMS])
def test_an_unknown_name_is_answered_with_the_closest(root, block):
    with pytest.raises(InputError, match="'edge-classification/test'"):
        render_document(block.format("edge-clasification/test", ""), root)


@pytest.mark.parametrize("text", [None, '{"version": 7}', '{"version": 1}', "not JSON"])
def test_a_missing_or_invalid_record_is_named(root, text):
    path = root / "results" / "apps.json"
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(FormatError, match=r"apps\.json"):
        render_document(TABLE.format("apps", ""), root)
