import csv
import io

import pytest

from edgeformers.errors import InputError
from edgeformers.experiments.model_rows import LINK_ROWS
from edgeformers.experiments.render import escape_latex, render, table_markdown
from edgeformers.experiments.tables import make_tables
from tests.experiments.records import edge_runs, lead, link_runs, make_record

RECORD = make_record(
    values={
        "tfidf": edge_runs(0.51),
        "bert": edge_runs(0.60, 0.62, micro=0.7),
        "edgeformer-e": edge_runs(0.63, 0.65, micro=0.75),
    },
    dataset="amazon-movie",
    comparisons=[lead("edgeformer-e", "bert")],
)
TABLES = make_tables(RECORD)

TERMINAL = """\
Edge classification, test part
                    Macro-F1   paper       Micro-F1   paper
  TF-IDF               51.00   50.01          50.00   64.22
  BERT          61.00 ± 1.41+  61.38   70.00 ± 0.00+  71.36
  Edgeformer-E  64.00 ± 1.41*  64.18*  75.00 ± 0.00*  73.59*
  Macro-F1: Edgeformer-E leads BERT by 2.50 (95% interval 1.00 to 4.00, p = 0.0012, 1,500 examples).

  * best, + second best of its column.
  net: 1,200 nodes, 34,567 edges; recipe default, backbone minilm; mean ± deviation over up to 2
    seeds.
  5 runs on cpu: 7.5 min in total (wall times; runs may share it).
"""

MARKDOWN = """\
### Edge classification, test part

|  | Macro-F1 | paper | Micro-F1 | paper |
|---|---:|---:|---:|---:|
| TF-IDF | 51.00 | 50.01 | 50.00 | 64.22 |
| BERT | _61.00 ± 1.41_ | 61.38 | _70.00 ± 0.00_ | 71.36 |
| Edgeformer-E | **64.00 ± 1.41** | **64.18** | **75.00 ± 0.00** | **73.59** |

Macro-F1: Edgeformer-E leads BERT by 2.50 (95% interval 1.00 to 4.00, p = 0.0012, 1,500 examples).

net: 1,200 nodes, 34,567 edges; recipe default, backbone minilm; mean ± deviation over up to 2 seeds.  
5 runs on cpu: 7.5 min in total (wall times; runs may share it).
"""  # noqa: E501, W291

LATEX = r"""\begin{table}
\caption{Edge classification, test part}
\centering
\begin{tabular}{lcccc}
\toprule
 & Macro-F1 & paper & Micro-F1 & paper \\
\midrule
TF-IDF & 51.00 & 50.01 & 50.00 & 64.22 \\
\midrule
BERT & \textit{61.00 $\pm$ 1.41} & 61.38 & \textit{70.00 $\pm$ 0.00} & 71.36 \\
\midrule
Edgeformer-E & \textbf{64.00 $\pm$ 1.41} & \textbf{64.18} & \textbf{75.00 $\pm$ 0.00} & \textbf{73.59} \\
\bottomrule
\end{tabular}
\end{table}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("format", "expected"), [("terminal", TERMINAL), ("markdown", MARKDOWN), ("latex", LATEX)]
)
def test_a_table_is_rendered_exactly(format, expected):
    assert render(TABLES, format) == expected


def test_a_table_without_marks_has_no_legend():
    (first, *_) = TABLES
    alone = make_tables(make_record(values={"tfidf": edge_runs(0.51)}))
    assert "second best" in render([first], "terminal")
    assert "second best" not in render(alone, "terminal")


def all_links():
    """Every row of link prediction under all protocols, three seeds each, values made up."""
    values = {row.name: link_runs(0.1, 0.2, 0.3) for row in LINK_ROWS}
    return make_tables(make_record("link-prediction", values, dataset="amazon-apps"))


def test_each_protocol_has_its_own_narrow_table():
    tables = [table for table in all_links() if table.name.count("/") == 2]
    assert [table.name.rpartition("/")[2] for table in tables] == ["paper", "sampled", "full"]
    for table in tables:
        lines = [line for line in table_markdown(table).splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) == 1
        assert lines[0].count("|") <= 7
        assert max(map(len, lines)) <= 130


def test_a_long_table_names_the_groups_of_its_rows():
    table = all_links()[0]
    first = [
        line.split("|")[1].strip() for line in table_markdown(table).splitlines()[2:] if "|" in line
    ]
    assert [name for name in first if name.startswith("_")] == [
        "_without a language model_",
        "_with a language model_",
        "_ours_",
    ]
    assert first[0] == "_without a language model_"
    assert first[first.index("_with a language model_") + 1] == "BERT"
    assert [name for name in first if not name.startswith("_")] == [row.title for row in LINK_ROWS]
    assert "_ours_" not in render(TABLES, "markdown")


def test_csv_has_a_line_per_number():
    rows = list(csv.DictReader(io.StringIO(render(TABLES, "csv"))))
    assert len(rows) == 3 * 2
    assert rows[4] == {
        "table": "edge-classification/test",
        "row": "edgeformer-e",
        "metric": "macro_f1",
        "mean": "64.0000",
        "deviation": "1.4142",
        "runs": "2",
        "published": "64.18",
        "mark": "bold",
    }
    assert rows[0]["deviation"] == ""


@pytest.mark.parametrize("format", ["terminal", "markdown", "latex"])
def test_no_table_is_no_text(format):
    assert render([], format) == ""


def test_special_characters_are_escaped_in_latex():
    assert escape_latex("50% of A_B & {c} $1 #2 ~^\\") == (
        r"50\% of A\_B \& \{c\} \$1 \#2 \textasciitilde{}\textasciicircum{}\textbackslash{}"
    )


def test_an_unknown_format_is_answered_with_the_closest():
    with pytest.raises(InputError, match="'latex'"):
        render([], "latx")
