import pytest

from edgeformers.data.recipes import load_recipe, recipe_names
from edgeformers.errors import InputError
from edgeformers.experiments import published
from edgeformers.experiments.model_rows import (
    EDGE_ROWS,
    LINK_ROWS,
    NODE_ROWS,
    TIMED_ROWS,
    ablation_rows,
)
from edgeformers.experiments.published import (
    TableCell,
    named_dataset,
    published_dataset,
    published_table,
    published_tables,
)

EDGES = [row.name for row in EDGE_ROWS if row.in_paper]
LINKS = [row.name for row in LINK_ROWS if row.in_paper]
ABLATED = [row.name for row in ablation_rows() if row.task == "link-prediction"]


@pytest.mark.parametrize(
    ("table", "dataset", "row", "metric", "cell"),
    [
        ("edge-classification", "amazon-movie", "tfidf", "macro_f1", (50.01, None, "")),
        ("edge-classification", "amazon-apps", "graphformers", "micro_f1", (70.19, None, "")),
        ("edge-classification", "goodreads-crime", "edgeformer-e", "macro_f1", (61.03, None, "b")),
        ("edge-classification", "goodreads-children", "bert-nodes", "micro_f1", (60.46, None, "i")),
        ("link-prediction", "amazon-movie", "netmf", "mrr", (0.2032, None, "")),
        ("link-prediction", "stackoverflow", "bert-gin", "ndcg", (0.3279, None, "i")),
        ("link-prediction", "goodreads-crime", "edgeformer-n", "mrr", (0.2395, None, "b")),
        ("link-prediction-validation", "stackoverflow", "bert-mean-sage", "ndcg", (0.3418, 0, "i")),
        ("link-prediction-validation", "amazon-apps", "bert-censnet", "mrr", (0.1577, None, "")),
        ("ablation", "amazon-apps", "edgeformer-n-without-local", "mrr", (0.2260, None, "b")),
        ("ablation", "stackoverflow", "edgeformer-n-without-center", "ndcg", (0.3291, None, "")),
        ("node-classification", "amazon-apps", "bert-censnet", "macro_f1", (0.5750, 0.0277, "")),
        ("node-classification", "amazon-movie", "edgeformer-n", "precision", (0.9417, 0.0005, "b")),
        ("efficiency", "goodreads-children", "graphformers-n", "5", (34.38, None, "")),
    ],
)
def test_cells_are_those_of_the_paper(table, dataset, row, metric, cell):
    marks = {"b": "bold", "i": "italic", "": ""}
    expected = TableCell(cell[0], cell[1] or None, marks[cell[2]])
    assert published_table(table).cell(dataset, row, metric) == expected


@pytest.mark.parametrize(
    ("name", "rows", "datasets", "metrics"),
    [
        ("edge-classification", EDGES, 4, 2),
        ("link-prediction", LINKS, 5, 2),
        ("link-prediction-validation", LINKS, 5, 2),
        ("ablation", ABLATED, 5, 2),
        ("node-classification", NODE_ROWS, 2, 3),
        ("efficiency", TIMED_ROWS, 3, 4),
    ],
)
def test_every_row_has_every_number_on_every_dataset(name, rows, datasets, metrics):
    table = published_table(name)
    assert len(table.cells) == datasets
    assert set(table.cells) <= set(recipe_names())
    for found in table.cells.values():
        assert sorted(found) == sorted(rows)
        assert all(tuple(cells) == table.metrics for cells in found.values())
    assert len(table.metrics) == metrics


def test_all_result_tables_are_included():
    numbers = sorted(n for table in published_tables().values() for n in table.tables)
    assert numbers == [1, 2, 3, 4, 5, 7, 8]


@pytest.mark.parametrize("name", [name for name in published_tables() if name != "efficiency"])
def test_bold_is_the_best_of_its_column_and_italic_the_second(name):
    table = published_table(name)
    for rows in table.cells.values():
        for metric in table.metrics:
            order = sorted(rows, key=lambda row: -rows[row][metric].value)
            assert [row for row in rows if rows[row][metric].mark == "bold"] == order[:1]
            italic = [row for row in rows if rows[row][metric].mark == "italic"]
            assert italic in ([], order[1:2])


@pytest.mark.parametrize("name", ["link-prediction", "link-prediction-validation"])
def test_printed_gains_follow_from_the_numbers(name):
    table = published_table(name)
    for dataset, gains in table.gains.items():
        for metric, gain in zip(table.metrics, gains, strict=True):
            values = sorted(cells[metric].value for cells in table.cells[dataset].values())
            assert 100 * (values[-1] / values[-2] - 1) == pytest.approx(gain, abs=0.11)


def test_cells_are_scaled_with_their_deviations():
    assert TableCell(64.18, mark="bold").scaled(0.01) == TableCell(
        pytest.approx(0.6418), None, "bold"
    )
    assert TableCell(0.2, 0.01).scaled(100) == TableCell(pytest.approx(20.0), pytest.approx(1.0))


def test_an_unknown_table_is_answered_with_the_closest():
    with pytest.raises(InputError, match="'ablation'"):
        published_table("abblation")


def test_a_network_has_published_numbers_only_with_the_published_counts(reviews, monkeypatch):
    assert published_dataset(reviews) is named_dataset(reviews) is None
    assert named_dataset(reviews, "amazon-apps") == "amazon-apps"
    reviews.meta.notes.append("the paper's dataset Goodreads-Crime: reviews")
    assert named_dataset(reviews) == "goodreads-crime"
    for name in (None, "amazon-apps", "goodreads-crime"):
        assert published_dataset(reviews, name) is None
    crime = load_recipe("goodreads-crime")
    counts = {**crime.counts, **crime.near}
    monkeypatch.setattr(published, "published_counts", lambda graph: counts)
    assert published_dataset(reviews) == published_dataset(reviews, crime.name) == crime.name
    assert published_dataset(reviews, "amazon-apps") is None
    with pytest.raises(InputError, match="'amazon-apps'"):
        published_dataset(reviews, "amazon-app")
