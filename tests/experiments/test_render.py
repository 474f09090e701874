import csv
import io

import pytest

from edgeformers.errors import InputError
from edgeformers.experiments.render import escape_latex, render
from edgeformers.experiments.tables import make_tables
from tests.experiments.records import edge_runs, lead, make_record

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

  net: 1,200 nodes, 34,567 edges; recipe default, backbone minilm; mean ± deviation over up to 2
    seeds.
  5 runs on cpu: 8 min in all, each run's own time added up.
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
5 runs on cpu: 8 min in all, each run's own time added up.
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
    ("how", "expected"), [("terminal", TERMINAL), ("markdown", MARKDOWN), ("latex", LATEX)]
)
def test_a_table_is_rendered_to_the_letter(how, expected):
    assert render(TABLES, how) == expected


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


@pytest.mark.parametrize("how", ["terminal", "markdown", "latex"])
def test_no_table_is_no_text(how):
    assert render([], how) == ""


def test_latex_prints_every_sign_as_it_is():
    assert escape_latex("50% of A_B & {c} $1 #2 ~^\\") == (
        r"50\% of A\_B \& \{c\} \$1 \#2 \textasciitilde{}\textasciicircum{}\textbackslash{}"
    )


def test_an_unknown_format_is_answered_with_the_nearest():
    with pytest.raises(InputError, match="no format 'latx'; did you mean 'latex'"):
        render([], "latx")
