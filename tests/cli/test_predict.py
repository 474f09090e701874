import csv
import json

import pyarrow.parquet as pq
import pytest

from edgeformers.errors import InputError
from edgeformers.estimators import load
from edgeformers.inference.fitted_edges import FittedEdgeClassifier
from tests.cli.commands import run_examples
from tests.cli.conftest import call

ROWS = [
    ("user-000001", "item-000002", "My tent is great, and the floor is solid.", "7"),
    ("nobody", "nothing", "Simply bad.", "8"),
]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "new.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("who", "what", "said", "order"), *ROWS])
    return path


COLUMNS = ("--source", "who", "--target", "what", "--text", "said")


def test_predictions_stand_beside_the_columns_of_the_table(home, table, tmp_path):
    out = tmp_path / "out.csv"
    answer = call("predict", "run-edges", table, "-o", out, *COLUMNS)
    assert (answer.code, answer.out) == (0, f"2 predictions: {out}\n")
    with out.open(newline="") as file:
        found = list(csv.DictReader(file))
    labels = load("run-edges").label_names
    names = ["who", "what", "said", "order", "prediction"]
    assert list(found[0]) == [*names, *(f"probability_{label}" for label in labels)]
    expected = load("run-edges").predict([row[:3] for row in ROWS])
    assert [row["prediction"] for row in found] == expected
    assert [row["order"] for row in found] == ["7", "8"]
    for row in found:
        chances = {label: float(row[f"probability_{label}"]) for label in labels}
        assert sum(chances.values()) == pytest.approx(1, abs=1e-5)
        assert max(chances, key=chances.get) == row["prediction"]


def test_progress_is_shown_unless_quiet(home, table, tmp_path, monkeypatch):
    monkeypatch.setattr("edgeformers.progress.LINE_EVERY", (0, 0))
    command = ("predict", "run-edges", table, "-o", tmp_path / "out.csv", *COLUMNS)
    shown, quiet = call(*command), call(*command, "--quiet")
    assert "2 edges" in shown.err
    assert (quiet.code, quiet.err, quiet.out) == (0, "", shown.out)


def test_all_formats_say_the_same(home, table, tmp_path):
    for suffix in ("parquet", "jsonl"):
        answer = call(
            "predict", "run-edges", table, "-o", tmp_path / f"o.{suffix}", *COLUMNS, "--json"
        )
        assert json.loads(answer.out) == {"out": str(tmp_path / f"o.{suffix}"), "edges": 2}
    lines = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert pq.read_table(tmp_path / "o.parquet").to_pylist() == lines


def test_raw_formats_are_read_as_prepare_reads_them(home, tmp_path):
    reviews = tmp_path / "reviews.json"
    review = {"reviewerID": "ada", "asin": "tent", "overall": 2.0, "reviewText": ROWS[1][2]}
    reviews.write_text(json.dumps(review | {"unixReviewTime": 1_000_000_000}) + "\n")
    answer = call("predict", "run-edges", reviews, "-o", tmp_path / "out.jsonl")
    assert answer.code == 0, answer.err
    row = json.loads((tmp_path / "out.jsonl").read_text())
    assert [row[name] for name in ("source", "target", "text", "label")] == [
        "ada",
        "tent",
        ROWS[1][2],
        "2",
    ]
    assert row["prediction"] == load("run-edges").predict([("ada", "tent", ROWS[1][2])])[0]


def test_columns_that_prepare_knows_are_kept(home, tmp_path):
    table, out = tmp_path / "rated.csv", tmp_path / "out.csv"
    table.write_text("source,target,text,label,time\nada,tent,Simply bad.,2,2020-01-01\n")
    assert call("predict", "run-edges", table, "-o", out).code == 0
    header, row = out.read_text().splitlines()
    assert header.replace('"', "").startswith("source,target,text,label,time,prediction")
    assert row.replace('"', "").startswith("ada,tent,Simply bad.,2,2020-01-01")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run-edges", "nothing.csv", "-o", "out.csv"], "nothing.csv: no such file"),
        (["run-edges", "{table}", "-o", "out.csv"], "no column 'source'"),
        (["run-edges", "{table}", "-o", "out.txt", *COLUMNS], "out.txt"),
        (["run-links", "{table}", "-o", "out.csv"], "run-links predicts links"),
        (["run-edges", "{table}", "-o", "{table}", *COLUMNS], "is the input"),
        (["run-edges", "{taken}", "-o", "out.csv"], "'prediction'"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(home, table, tmp_path, args, words):
    taken = tmp_path / "taken.csv"
    taken.write_text("source,target,text,prediction\na,b,c,d\n")
    answer = call("predict", *(str(arg).format(table=table, taken=taken) for arg in args))
    assert answer.code == 2
    assert words in answer.err
    assert answer.err.count("\n") == 1
    assert not (home / "out.csv").exists()
    assert table.read_text().startswith("who,what,said,order")


def test_what_fails_half_way_leaves_nothing_behind(home, tmp_path, monkeypatch):
    monkeypatch.setattr("edgeformers.inference.batch_inference.ROWS", 1)
    (tmp_path / "new.csv").write_text("source,target,text\na,b,c\nd,e,f\n")
    predict, calls = FittedEdgeClassifier.predictions, []

    def failing(self, rows):
        calls.append(rows)
        if len(calls) == 2:
            raise InputError("stopped half way")
        return predict(self, rows)

    monkeypatch.setattr(FittedEdgeClassifier, "predictions", failing)
    answer = call("predict", "run-edges", tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    assert (answer.code, answer.err) == (2, "error: stopped half way\n")
    assert len(calls) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["new.csv"]


def test_the_examples_in_the_help_work(edgeformers):
    (*_, last) = run_examples("predict")
    assert last.out == "1 predictions: predictions.csv\n"
