from pathlib import Path

import pytest

from edgeformers.errors import FormatError, InputError
from edgeformers.experiments.documents import render_document, update_document
from tests.experiments.records import edge_runs, make_record

ROOT = Path(__file__).parents[2]
BLOCK = "<!-- table: {} from results/apps.json -->\n{}<!-- end -->"
TABLE = """\
|  | Macro-F1 | Micro-F1 |
|---|---:|---:|
| BERT | 60.00 | 50.00 |

net: 1,200 nodes, 34,567 edges; recipe default, backbone minilm; one seed.  
1 run on cpu: 2 min in all, each run's own time added up.
"""  # noqa: W291


@pytest.fixture
def root(tmp_path):
    make_record(values={"bert": edge_runs(0.6)}).write(tmp_path / "results" / "apps.json")
    return tmp_path


def test_the_tables_of_the_document_are_those_of_the_records():
    text = (ROOT / "docs" / "results_tables.md").read_text(encoding="utf-8")
    assert render_document(text, ROOT) == text


def test_a_block_is_made_from_its_record(root):
    text = "# Results\n\n" + BLOCK.format("edge-classification/test", "old\n") + "\n\nMore.\n"
    made = render_document(text, root)
    assert made == "# Results\n\n" + BLOCK.format("edge-classification/test", TABLE) + "\n\nMore.\n"
    assert render_document(made, root) == made


def test_the_records_own_name_stands_for_all_its_tables(root):
    made = render_document(BLOCK.format("apps", ""), root)
    assert "### Edge classification, test part\n\n| " in made


CLAIMS = "<!-- claims: {} from results/apps.json -->\n{}<!-- end -->"
CLAIMED = """\
- **not measured**: Edgeformer-E is above every baseline (4.2 (a), A.3)
- **not measured**: Edgeformer-E is above EHGNN, BERT+EHGNN, BERT+MaxSAGE and GraphFormers (A.3)
- **holds** by the means, which were not tested: methods with a language model are above bags of \
words (4.2 (b)); BERT over TF-IDF in Micro-F1 by +10.00, the weakest of 2 compared; 3 of its rows \
not measured
- **not measured**: nodes help a bag of words: TF-IDF+nodes is above TF-IDF (4.2 (c))
- **not measured**: nodes help a language model: BERT+nodes is above BERT (4.2 (c))
- **not measured**: virtual tokens in every layer are above node tokens in the input: \
Edgeformer-E is above BERT+nodes (4.2 (d))
"""


def test_what_the_paper_claims_of_a_table_is_a_block_too(root):
    rows = {"tfidf": edge_runs(0.3, micro=0.4), "bert": edge_runs(0.6)}
    make_record(values=rows).write(root / "results" / "apps.json")
    made = render_document(CLAIMS.format("edge-classification/test", "old\n"), root)
    assert made == CLAIMS.format("edge-classification/test", CLAIMED)
    assert render_document(made, root) == made
    everything = render_document(CLAIMS.format("apps", ""), root)
    heading = "### What the paper claims\n\n`edge-classification/test`:\n\n"
    assert everything == CLAIMS.format("apps", heading + CLAIMED)


def test_a_table_that_nothing_is_claimed_of_is_named(root):
    with pytest.raises(InputError, match="nothing is claimed of 'edge-classification/val'; did"):
        render_document(CLAIMS.format("edge-classification/val", ""), root)


def test_a_document_is_written_only_where_it_changes(root):
    path = root / "results.md"
    path.write_text(BLOCK.format("edge-classification/test", ""))
    assert update_document(path, root)
    before = path.stat().st_mtime_ns
    assert not update_document(path, root)
    assert path.stat().st_mtime_ns == before


def test_a_document_without_blocks_stays_as_it_is(root):
    assert (
        render_document("# Results\n<!-- a remark -->\n", root) == "# Results\n<!-- a remark -->\n"
    )


def test_a_table_or_a_record_that_is_not_there_is_named(root):
    with pytest.raises(InputError, match=r"no table 'edge-clas'; did you mean 'edge-class"):
        render_document(BLOCK.format("edge-clas", ""), root)
    with pytest.raises(FormatError, match=r"nowhere.json: no such file"):
        render_document("<!-- table: a from nowhere.json -->\n<!-- end -->", root)


def test_a_record_that_is_none_is_refused(root):
    (root / "results" / "apps.json").write_text('{"version": 7}')
    with pytest.raises(FormatError, match=r"version 1 expected \(got 7\)"):
        render_document(BLOCK.format("apps", ""), root)
    (root / "results" / "apps.json").write_text('{"version": 1}')
    with pytest.raises(FormatError, match="is no record of runs"):
        render_document(BLOCK.format("apps", ""), root)
