"""The numbers of the results page and of the README are those of the records."""

import re
from pathlib import Path
from statistics import mean

import pytest

from edgeformers.experiments.record import Record

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results.md"
LINKS = ("rotten-tomatoes-fresh", "imdb-liked", "ubuntu-irc")
EDGES = ("rotten-tomatoes-stars", "imdb-stars")
F1 = ("macro_f1", "micro_f1")
#: Titles on the page, without what is in parentheses, that are not those of the records.
TUNED_ROWS = {
    "without the source node token": "edgeformer-e-without-source",
    "without the target node token": "edgeformer-e-without-target",
    "without the center node token": "edgeformer-n-without-center",
    "without the neighbor node token": "edgeformer-n-without-neighbor",
    "without the neighbor text token": "edgeformer-n-without-local",
}
EDGE_ROWS = {
    "TF-IDF + logistic regression": "tfidf",
    "TF-IDF + nodes + logistic regression": "tfidf-nodes",
    "fine-tuned MiniLM, text only": "bert",
    "Edgeformer-E with late fusion, without ensemble": "edgeformer-e-fusion",
    "Edgeformer-E as shipped": "edgeformer-e-ensemble",
}
SHIPPED_ROWS = {
    "popularity": "popularity",
    "fine-tuned MiniLM, text only": "bert-n-text",
    "EASE": "ease",
    "ALS": "als",
    "LightGCN": "lightgcn",
    "LightGCN + ALS + EASE, without Edgeformer-N": "collaborative",
    "Edgeformer-N alone": "edgeformer-n",
    "Edgeformer-N as shipped": "edgeformer-n-ensemble",
}
README_ROWS = {
    "TF-IDF + nodes, logistic regression": ("tfidf-nodes", None),
    "MiniLM fine-tuned on the text alone": ("bert", "bert-n-text"),
    "MiniLM with node tokens in its input": ("bert-nodes", None),
    "LightGCN + ALS + EASE, no text": (None, "collaborative"),
    "Edgeformer alone": ("edgeformer-e-fusion", "edgeformer-n"),
    "Edgeformer with its ensemble, the default": ("edgeformer-e-ensemble", "edgeformer-n-ensemble"),
}


def table_after(path, heading):
    """The rows of the first table after a line that starts like this: title -> cells."""
    _, _, rest = path.read_text(encoding="utf-8").partition(f"\n{heading}")
    lines = re.search(r"(?:^\|.*\n)+", rest, re.MULTILINE)[0].splitlines()[2:]
    rows = {}
    for line in lines:
        title, *cells = (cell.strip(" *") for cell in line.strip("|").split("|"))
        rows[re.sub(r"\*|\s*\([^)]*\)", "", title)] = [cell.replace("*", "") for cell in cells]
    return rows


def value(name, row, metric):
    """The mean of a row over its seeds, on test; None if the record does not have the row."""
    record = Record.read(ROOT / "benchmarks" / "results" / f"{name}.json")
    names = {info.title: info.name for info in record.rows if metric in F1 or info.task[0] == "l"}
    entries = [each for each in record.entries if each.row == names.get(row, row)]
    return mean(each.metrics["test"][metric] for each in entries) if entries else None


def assert_rounded(shown, exact):
    digits = len(shown.partition(".")[2])
    assert float(shown) == pytest.approx(exact, abs=0.5001 * 10**-digits)


def assert_f1(cell, name, row):
    for shown, metric in zip(cell.split(" / "), F1, strict=False):
        assert_rounded(shown, 100 * value(name, row, metric))


def test_like_for_like_edges_are_those_of_the_records():
    rows = table_after(RESULTS, "Edge classification, test Macro-F1")
    assert len(rows) == 11
    for title, cells in rows.items():
        row = TUNED_ROWS.get(title, title)
        kind = "tuned-ablation" if "without" in title else "tuned"
        for name, cell in zip(EDGES, cells, strict=True):
            assert_f1(cell, f"{name}-{kind}", row)


def test_like_for_like_links_are_those_of_the_records():
    rows = table_after(RESULTS, "Link prediction, test MRR")
    assert len(rows) == 17
    for title, cells in rows.items():
        row = TUNED_ROWS.get(title, title)
        kind = "tuned-ablation" if "without" in title else "tuned"
        columns = [(name, metric) for name in LINKS for metric in ("paper/mrr", "full/mrr")]
        for (name, metric), cell in zip(columns, cells, strict=True):
            if cell:
                assert_rounded(cell, value(f"{name}-{kind}", row, metric))


def test_shipped_edges_are_those_of_the_records():
    rows = table_after(RESULTS, "## As shipped")
    assert set(rows) == set(EDGE_ROWS)
    for title, cells in rows.items():
        for name, cell in zip(EDGES, cells, strict=True):
            assert_f1(cell, name, EDGE_ROWS[title])


def test_shipped_links_are_those_of_the_records():
    rows = table_after(RESULTS, "Full-ranking MRR of links")
    assert set(SHIPPED_ROWS) <= set(rows)
    for title, row in SHIPPED_ROWS.items():
        for name, cell in zip(LINKS, rows[title], strict=True):
            assert_rounded(cell, value(f"{name}-shipped", row, "full/mrr"))


def test_the_readme_shows_what_the_records_have():
    rows = table_after(ROOT / "README.md", "## What to expect")
    assert set(rows) == set(README_ROWS)
    for title, (edges, links) in rows.items():
        edge_row, link_row = README_ROWS[title]
        assert (bool(edges), bool(links)) == (edge_row is not None, link_row is not None)
        if edges:
            assert_f1(edges, "rotten-tomatoes-stars", edge_row)
        if links:
            assert_rounded(links, value("rotten-tomatoes-fresh-shipped", link_row, "full/mrr"))
