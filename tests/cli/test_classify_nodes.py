import json
import re

import pytest

from edgeformers.data.graph import EdgeTextGraph
from tests.cli.commands import run_examples
from tests.cli.conftest import call


@pytest.fixture
def table(home, tmp_path):
    """The topic of every item, as a table of one's own, and an item the network does not have."""
    graph = EdgeTextGraph.open("network")
    rows = graph.nodes(["id", "side", "labels"]).to_pylist()
    lines = [f"{row['id']},{'+'.join(row['labels'])}" for row in rows if row["side"] == "target"]
    path = tmp_path / "items.csv"
    path.write_text("\n".join(["item,kind", *lines, "nothing,audio"]) + "\n")
    return path


COLUMNS = ("--node-id", "item", "--node-labels", "kind")


def test_a_table_and_the_labels_of_the_network_give_the_same_result(home, table):
    own = call("classify-nodes", "run-links", "--node-side", "target", "--json", "--quiet")
    given = call("classify-nodes", "run-links", "--labels", table, *COLUMNS, "--json", "--quiet")
    assert (own.code, given.code) == (0, 0), (own.err, given.err)
    own, given = json.loads(own.out), json.loads(given.out)
    assert (own.pop("strangers"), given.pop("strangers")) == (0, 1)
    assert own == given
    assert own["nodes"] == EdgeTextGraph.open("network").num_targets
    assert len(own["labels"]) == 8
    assert len(own["runs"]) == 5


def test_mean_and_deviation_are_printed(home, table):
    args = ("--labels", table, *COLUMNS, "--repetitions", 2, "--standardize", "--quiet")
    told = json.loads(call("classify-nodes", "run-links", *args, "--json").out)
    lines = call("classify-nodes", "run-links", *args).out.splitlines()
    assert re.match(r"\d+ nodes with 8 labels in run-links", lines[0])
    assert "1 labeled row is left out" in lines[1]
    found = told["summary"]["macro_f1"]
    shown = f"{found['mean']:.4f} (± {found['deviation']:.4f}, 2 runs)"
    assert lines[2].split(maxsplit=1) == ["macro_f1", shown]
    assert [line.split()[0] for line in lines[2:]] == ["macro_f1", "micro_f1", "precision"]


def test_several_labels_of_a_node_are_split_at_the_separator(home, table):
    text = table.read_text().replace("audio", "audio+sound")
    table.write_text(text)
    args = ("--labels", table, *COLUMNS, "--repetitions", 1, "--quiet", "--json")
    told = json.loads(call("classify-nodes", "run-links", *args).out)
    assert "audio+sound" in told["labels"]
    told = json.loads(call("classify-nodes", "run-links", *args, "--node-label-separator", "+").out)
    assert {"audio", "sound"} < set(told["labels"])
    assert told["summary"]["macro_f1"]["deviation"] is None


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run-edges"], "run-edges has vectors of edges"),
        (["run-links", "--labels", "none.csv"], "none.csv: no such file"),
        (["run-links", "--labels", "{table}"], "no column 'node'"),
        (["run-links", "--node-side", "left"], "--node-side 'left'"),
        (["run-links", "--repetitions", 0], "(got 0)"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(home, table, args, words):
    args = [str(arg).format(table=table) for arg in args]
    answer = call("classify-nodes", *args, "--quiet")
    assert answer.code == 2
    assert answer.out == ""
    assert words in answer.err
    assert answer.err.count("\n") == 1


def test_the_examples_in_the_help_work(edgeformers):
    assert len(run_examples("classify-nodes", until="With a table")) == 3
