import errno
import json
import re
import subprocess
import sys

import pytest

import edgeformers as library
from edgeformers.cli.prepare import EXAMPLES
from tests.data.folders import contents

QUICK = ("--tokenizer", "none", "--quiet")


def refusal(answer, folder, *, left=("edges.csv",)):
    """The one sentence on stderr of a call that gave code 2 and left nothing behind."""
    assert answer.code == 2
    assert answer.out == ""
    assert "Traceback" not in answer.err
    assert sorted(path.name for path in folder.iterdir()) == sorted(left)
    (sentence,) = answer.err.splitlines()
    return sentence.removeprefix("error: ")


def test_prepares_a_table_and_shows_its_card(edgeformers, edges, tmp_path):
    answer = edgeformers("prepare", edges, "--label", "label", "-o", "net", "--tokenizer", "none")
    assert answer.code == 0
    assert "20 edges with text from 5 sources to 3 targets" in answer.out
    assert (tmp_path / "net" / "card.html").is_file()


def test_json_stands_alone_on_stdout(edgeformers, edges):
    answer = edgeformers("prepare", edges, "-o", "net", "--tokenizer", "none", "--json")
    assert json.loads(answer.out)["name"] == "net"
    quiet = edgeformers("prepare", edges, "-o", "other", *QUICK, "--json")
    assert json.loads(quiet.out)["name"] == "other"
    assert quiet.err == ""


def test_rows_that_cannot_be_used_stop_or_are_listed(edgeformers, tmp_path):
    (tmp_path / "edges.csv").write_text("source,target,text\na,b,c\n,b,c\nd,e,f\n")
    stopped = edgeformers("prepare", "edges.csv", "-o", "net", *QUICK)
    assert refusal(stopped, tmp_path) == (
        "edges.csv, line 3: column 'source' is empty; every edge needs source and target"
    )
    skipped = edgeformers(
        "prepare", "edges.csv", "-o", "net", "--on-error", "skip", "--tokenizer", "none"
    )
    assert skipped.code == 0
    assert "edges.csv, line 3: column 'source' is empty" in skipped.out
    listed = json.loads((tmp_path / "net" / "network.json").read_text())["skipped"]
    assert listed["count"] == 1


def test_repeats_and_nodes_with_few_edges_are_left_out_and_told(edgeformers, tmp_path):
    rows = ["a,x,1", "a,y,2", "b,x,3", "b,y,4", "b,y,4", "b,z,5"]
    (tmp_path / "edges.csv").write_text("\n".join(["source,target,text", *rows]) + "\n")
    how = ("--drop-repeats", "--min-degree", "2", "--tokenizer", "none")
    answer = edgeformers("prepare", "edges.csv", "-o", "net", *how, "--json")
    card = json.loads(answer.out)
    assert card["counts"]["edges"] == 4
    assert card["notes"] == [
        "repeated edges were dropped: 1 of 6 edges and 0 of 5 nodes; 5 edges and 5 nodes remain",
        "nodes with fewer than 2 edges were dropped: 1 of 5 edges and 1 of 5 nodes; "
        "4 edges and 4 nodes remain",
    ]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nothing.csv"], "nothing.csv: no such file"),
        (["edges.csv", "--text", "txt"], "'text'? (set it with --text)"),
        (["edges.csv", "--format", "cvs"], "'csv'"),
        (["edges.csv", "--split", "randm"], "'random'"),
        (["edges.csv", "--tokenizer", "minlm"], "no tokenizer 'minlm'; did you mean 'minilm'?"),
        (["edges.csv", "--tokenizer", "train:x"], "write the size of the vocabulary as train:8000"),
        (["edges.csv", "--label-kind", "klass"], "'klass'; did you mean 'class'?"),
        (["edges.csv", "--on-error", "ignore"], "--on-error must be stop or skip (got 'ignore')"),
        (["edges.csv", "--label", "label", "--classes", "1"], "line 2: column 'label': '0' is not"),
        (["edges.csv", "--nodes", "nodes.csv"], "nodes.csv: no such file"),
        (["edges.csv", "--delimiter", "\\t"], "no column 'source' (source); pass --delimiter ','"),
        (["amazon-apps"], "the recipe amazon-apps needs its raw file reviews_Apps_for_Android_5"),
        (["amazon-aps"], "'amazon-apps'"),
        (["simulated", "--label", "x"], "leave out label"),
        (["edges.csv", "--min-degree", "0"], "--min-degree must be at least 1 (got 0)"),
        (["edges.csv", "--min-degree", "99"], "none of its 20 edges is left when every node must"),
        (["."], ". is a folder"),
    ],
)
def test_a_mistake_is_answered_with_a_sentence(edgeformers, edges, tmp_path, args, words):
    options = QUICK if "--tokenizer" not in args else ("--quiet",)
    answer = edgeformers("prepare", *args, "-o", "net", *options)
    assert words in refusal(answer, tmp_path)


def test_a_folder_that_exists_is_not_touched(edgeformers, edges, tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "mine.txt").write_text("mine")
    for more in ((), ("--overwrite",)):
        answer = edgeformers("prepare", edges, "-o", "net", *QUICK, *more)
        assert "net" in refusal(answer, tmp_path, left=("edges.csv", "net"))
    assert (tmp_path / "net" / "mine.txt").read_text() == "mine"


def test_a_network_is_replaced_when_asked(edgeformers, edges, tmp_path):
    assert edgeformers("prepare", edges, "-o", "net", *QUICK).code == 0
    again = edgeformers("prepare", edges, "-o", "net", *QUICK)
    assert "net already exists" in refusal(again, tmp_path, left=("edges.csv", "net"))
    assert edgeformers("prepare", edges, "-o", "net", *QUICK, "--overwrite").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "net"]


def test_only_a_network_and_nothing_beside_it_is_replaced(edgeformers, edges, tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "network.json").write_text('{"name": "my-npm-package"}')
    (tmp_path / "net" / "thesis.tex").write_text("mine")
    overwrite = ("prepare", edges, "-o", "net", *QUICK, "--overwrite")
    told = refusal(edgeformers(*overwrite), tmp_path, left=("edges.csv", "net"))
    assert told.startswith("net is not a prepared network; it is not overwritten")
    assert sorted(path.name for path in (tmp_path / "net").iterdir()) == [
        "network.json",
        "thesis.tex",
    ]
    assert edgeformers("prepare", edges, "-o", "own", *QUICK).code == 0
    (tmp_path / "own" / "thesis.tex").write_text("mine")
    before = contents(tmp_path / "own")
    answer = edgeformers("prepare", edges, "-o", "own", *QUICK, "--overwrite")
    told = refusal(answer, tmp_path, left=("edges.csv", "net", "own"))
    assert "own is not overwritten" in told
    assert "(thesis.tex)" in told
    assert contents(tmp_path / "own") == before


def test_what_other_commands_add_to_a_network_is_replaced_with_it(edgeformers, edges, tmp_path):
    tokens = ("--tokenizer", "train:300")
    assert edgeformers("prepare", edges, "-o", "net", *QUICK, *tokens).code == 0
    assert edgeformers("describe", "net").code == 0
    (store,) = (tmp_path / "net" / "tokens").iterdir()
    vectors = tmp_path / "net" / "vectors" / store.name
    vectors.mkdir(parents=True)
    for path in (
        vectors / "vectors.npy",
        tmp_path / "net" / ".card.json.4711",
        tmp_path / "net" / "tokens" / f".{store.name}.partial-abc" / "lock",
    ):
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    assert edgeformers("prepare", edges, "-o", "net", *QUICK, "--overwrite").code == 0
    assert not {"tokens", "vectors"} & {path.name for path in (tmp_path / "net").iterdir()}


def test_a_full_disk_is_answered_with_a_sentence(edgeformers, edges, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("edgeformers.data.network.save_array", fail)
    answer = edgeformers("prepare", edges, "-o", "net", *QUICK)
    assert refusal(answer, tmp_path).startswith("the disk is full")


def test_a_place_that_cannot_be_written_is_answered_with_a_sentence(edgeformers, edges, tmp_path):
    answer = edgeformers("prepare", edges, "-o", f"{edges}/net", *QUICK)
    assert "edges.csv" in refusal(answer, tmp_path)


def test_an_unforeseen_failure_keeps_its_traceback(edgeformers, edges, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("unforeseen")

    monkeypatch.setattr("edgeformers.cli.prepare.prepare", fail)
    with pytest.raises(RuntimeError, match="unforeseen"):
        edgeformers("prepare", edges, "-o", "net", *QUICK)


def test_the_commands_of_the_help_work_as_pasted(edgeformers, tmp_path):
    shown = edgeformers("prepare", "--help")
    assert shown.code == 0
    lines = re.findall(r"^  edgeformers (prepare .*)$", EXAMPLES, re.MULTILINE)
    assert all(f"  edgeformers {line}\n" in shown.out for line in lines)
    commands = [line.partition("  # ")[0] for line in lines]
    (tmp_path / "reviews.csv").write_text("user,item,review\na,b,good\nc,d,bad\n")
    simulated, git, table = (command.split() for command in commands)
    assert edgeformers(*simulated, "--edges", "300", *QUICK).code == 0
    assert edgeformers(*table[:-1], "second", *QUICK).code == 0
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "add", "reviews.csv"], check=True)
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *author, "commit", "-qm", "one"], check=True)
    assert edgeformers(*git, *QUICK).code == 0


def test_the_installed_program_answers(tmp_path):
    def call(*args):
        program = [sys.executable, "-c", "from edgeformers.cli.main import run; run()", *args]
        return subprocess.run(program, cwd=tmp_path, capture_output=True, text=True)

    assert call("--version").stdout.strip() == library.__version__
    missing = call("prepare", "nothing.csv", "-o", "net")
    assert missing.returncode == 2
    assert missing.stderr.count("\n") == 1
    (tmp_path / "edges.csv").write_text("source,target,text\na,b,c\nd,e,f\n")
    made = call("prepare", "edges.csv", "-o", "net", "--tokenizer", "none", "--json")
    assert made.returncode == 0
    assert json.loads(made.stdout)["name"] == "net"
