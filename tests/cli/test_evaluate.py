import json

import pytest

from tests.cli.commands import run_examples
from tests.cli.conftest import call


def test_scores_are_those_of_training(home):
    answer = call("evaluate", "run-edges", "--quiet")
    assert answer.code == 0, answer.err
    noted = json.loads((home / "run-edges" / "results.json").read_text())["test"]
    assert answer.out.startswith(
        "run-edges on 200 edges of the test part of the split edge=random:"
    )
    assert f"{noted['macro_f1']:.4f}" in answer.out


def test_links_are_shown_by_protocol(home):
    answer = call("evaluate", "run-links", "--quiet")
    noted = json.loads((home / "run-links" / "results.json").read_text())["test"]
    lines = answer.out.splitlines()
    assert [line.split()[0] for line in lines[1:7]] == [
        "protocol",
        "full",
        "sampled",
        "paper",
        "paper-shifted",
        "paper-unseen",
    ]
    assert lines[2].split()[1] == f"{noted['full/mrr']:.4f}"


def test_json_is_the_only_output(home):
    told = json.loads(call("evaluate", "run-edges", "--part", "val", "--json", "--quiet").out)
    assert told["part"] == "val"
    assert 0 <= told["results"]["accuracy"] <= 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nothing"], "nothing: no such folder"),
        (["run-edges", "--part", "tset"], "'tset'; did you mean 'test'"),
        (["run-edges", "--network", "nothing"], "nothing is not a prepared network"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(home, args, words):
    answer = call("evaluate", *args, "--quiet")
    assert answer.code == 2
    assert words in answer.err
    assert answer.err.count("\n") == 1


def test_the_examples_in_the_help_work(edgeformers):
    run_examples("evaluate")
