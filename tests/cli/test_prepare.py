import errno
import json
import subprocess
import sys

import pytest

import edgeformers as library
from edgeformers.data.edge_store import EdgeStore, StoredEdge
from tests.cli.commands import run_examples
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


def test_json_is_the_only_output(edgeformers, edges):
    answer = edgeformers("prepare", edges, "-o", "net", "--tokenizer", "none", "--json")
    assert json.loads(answer.out)["name"] == "net"
    quiet = edgeformers("prepare", edges, "-o", "other", *QUICK, "--json")
    assert json.loads(quiet.out)["name"] == "other"
    assert quiet.err == ""


def test_a_quiet_run_writes_the_card_and_prints_nothing(edgeformers, edges, tmp_path):
    answer = edgeformers("prepare", edges, "-o", "net", *QUICK)
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    assert (tmp_path / "net" / "card.html").is_file()


def test_unusable_rows_stop_the_command_or_are_listed(edgeformers, tmp_path):
    (tmp_path / "edges.csv").write_text("source,target,text\na,b,c\n,b,c\nd,e,f\n")
    stopped = edgeformers("prepare", "edges.csv", "-o", "net", *QUICK)
    assert "edges.csv, line 3: column 'source'" in refusal(stopped, tmp_path)
    skipped = edgeformers(
        "prepare", "edges.csv", "-o", "net", "--on-error", "skip", "--tokenizer", "none"
    )
    assert skipped.code == 0
    assert "edges.csv, line 3: column 'source'" in skipped.out
    listed = json.loads((tmp_path / "net" / "network.json").read_text())["skipped"]
    assert listed["count"] == 1


@pytest.mark.parametrize("given", [("4,5",), ("4", "5"), ("4, 5", "5")])
def test_labels_of_links_are_a_list_or_given_one_at_a_time(edgeformers, tmp_path, given):
    rows = [f"a{i},b{i},text,{i % 5 + 1}" for i in range(20)]
    (tmp_path / "edges.csv").write_text("\n".join(["source,target,text,stars", *rows]))
    options = [word for labels in given for word in ("--positive", labels)]
    edgeformers("prepare", "edges.csv", "--label", "stars", "-o", "net", *options, *QUICK)
    graph = library.EdgeTextGraph.open(tmp_path / "net")
    assert graph.is_positive.sum() == 8


def test_repeats_and_nodes_with_few_edges_are_dropped_and_noted(edgeformers, tmp_path):
    rows = ["a,x,1", "a,y,2", "b,x,3", "b,y,4", "b,y,4", "b,z,5"]
    (tmp_path / "edges.csv").write_text("\n".join(["source,target,text", *rows]) + "\n")
    how = ("--drop-repeats", "--min-degree", "2", "--tokenizer", "none")
    answer = edgeformers("prepare", "edges.csv", "-o", "net", *how, "--json")
    card = json.loads(answer.out)
    assert card["counts"]["edges"] == 4
    repeats, degrees = card["notes"]
    assert "1 of 6 edges" in repeats
    assert "fewer than 2 edges" in degrees


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nothing.csv"], "nothing.csv"),
        (["edges.csv", "--text", "txt"], "'txt'"),
        (["edges.csv", "--format", "cvs"], "'cvs'"),
        (["edges.csv", "--split", "randm"], "'randm'; did you mean 'random'?"),
        (["edges.csv", "--split", "link=per-sorce"], "'per-source'"),
        (["edges.csv", "--tokenizer", "minlm"], "'minlm'; did you mean 'minilm'?"),
        (["edges.csv", "--tokenizer", "train:x"], "train:8000"),
        (["edges.csv", "--label-kind", "klass"], "did you mean 'class'?"),
        (["edges.csv", "--on-error", "ignore"], "--on-error 'ignore'"),
        (["edges.csv", "--label", "label", "--classes", "1"], "line 2: column 'label': '0'"),
        (["edges.csv", "--nodes", "nodes.csv"], "nodes.csv"),
        (["edges.csv", "--delimiter", "\\t"], "--delimiter ,"),
        (["amazon-apps"], "reviews_Apps_for_Android_5"),
        (["amazon-aps"], "did you mean 'amazon-apps'?"),
        (["simulated", "--label", "x"], "label"),
        (["edges.csv", "--min-degree", "0"], "(got 0)"),
        (["edges.csv", "--min-degree", "99"], "20 edges"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(edgeformers, edges, tmp_path, args, words):
    options = QUICK if "--tokenizer" not in args else ("--quiet",)
    answer = edgeformers("prepare", *args, "-o", "net", *options)
    assert words in refusal(answer, tmp_path)


def test_a_folder_of_shards_is_one_table(edgeformers, edges, tmp_path):
    header, *rows = (tmp_path / edges).read_text().splitlines()
    (tmp_path / "shards").mkdir()
    for number, part in enumerate((rows[:7], rows[7:])):
        text = "\n".join([header, *part]) + "\n"
        (tmp_path / "shards" / f"part-{number}.csv").write_text(text)
    for data, out in ((edges, "whole"), ("shards", "joined")):
        assert edgeformers("prepare", data, "-o", out, *QUICK).code == 0
    for name in ("src.npy", "dst.npy", "texts.parquet", "nodes.parquet"):
        whole, joined = ((tmp_path / out / name).read_bytes() for out in ("whole", "joined"))
        assert whole == joined


@pytest.mark.parametrize("format", [(), ("--format", "git")], ids=["recognized", "named"])
def test_a_format_of_one_folder_is_read_by_its_name(edgeformers, edges, tmp_path, format):
    for name in ("one", "two"):
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", name]
        subprocess.run(["git", "init", "-q", name], check=True)
        (tmp_path / name / "file").write_text("x")
        subprocess.run([*git, "add", "file"], check=True)
        subprocess.run([*git, "commit", "-qm", "first"], check=True)
    answer = edgeformers("prepare", "one", "-o", "net", *QUICK, *format)
    assert (answer.code, answer.err) == (0, "")
    several = edgeformers("prepare", "one", "two", "-o", "both", *QUICK, *format)
    assert "two" in refusal(several, tmp_path, left=("edges.csv", "net", "one", "two"))
    gone = edgeformers("prepare", "gone", "-o", "both", *QUICK, "--format", "git")
    assert "gone" in refusal(gone, tmp_path, left=("edges.csv", "net", "one", "two"))


def dated(folder, times):
    """A table of edges at these times, some of them after a blank line."""
    lines = [f"u{i % 3},i{i % 4},text {i},{time}" for i, time in enumerate(times)]
    text = "\n".join(["source,target,text,when", *lines[:2], "", *lines[2:]]) + "\n"
    (folder / "edges.csv").write_text(text)


DAYS = [f"2024-01-{day:02}" for day in range(1, 21)]
WITHOUT_FUTURE = {
    "missing": (["", "", *DAYS[:1], "", *DAYS[4:]], ("3 of 20", "edges.csv, line 2")),
    "late": ([*DAYS[:9], "", *DAYS[10:]], ("1 of 20", "edges.csv, line 12")),
    "same": (DAYS[:1] * 20, ("same time", "2024-01-01")),
    "tied": (DAYS[:10] + DAYS[-1:] * 10, ("2024-01-20", "11")),
}


@pytest.mark.parametrize("times", [WITHOUT_FUTURE[name][0] for name in WITHOUT_FUTURE])
def test_a_chronological_split_without_order_is_refused(edgeformers, tmp_path, times):
    dated(tmp_path, times)
    split = ("--time", "when", "--split", "link=chronological")
    answer = edgeformers("prepare", "edges.csv", "-o", "net", *QUICK, *split)
    sentence = refusal(answer, tmp_path)
    words = next(words for given, words in WITHOUT_FUTURE.values() if given == times)
    for word in ("link", "random", *words[1:]):
        assert word in sentence


@pytest.mark.parametrize("name", WITHOUT_FUTURE)
def test_prepare_says_why_there_is_no_split_future(edgeformers, tmp_path, name):
    times, words = WITHOUT_FUTURE[name]
    dated(tmp_path, times)
    options = ("--time", "when", "--tokenizer", "none")
    answer = edgeformers("prepare", "edges.csv", "-o", "net", *options, "--json")
    assert answer.code == 0
    assert [split["name"] for split in json.loads(answer.out)["splits"]] == ["edge", "link"]
    (line,) = answer.err.splitlines()
    for word in ("future", "random", *words):
        assert word in line
    assert line.count(": ") == 0  # one sentence
    assert ("remove these rows" in line) == (name in ("missing", "late"))
    quiet = edgeformers("prepare", "edges.csv", "-o", "other", *options, "--quiet")
    assert quiet.err == ""


def test_nothing_is_said_of_a_split_that_is_made_or_not_asked_for(edgeformers, edges, tmp_path):
    plain = edgeformers("prepare", edges, "-o", "plain", "--tokenizer", "none")
    dated(tmp_path, DAYS)
    when = ("--time", "when", "--tokenizer", "none")
    made = edgeformers("prepare", "edges.csv", "-o", "made", *when)
    dated(tmp_path, ["", *DAYS[1:]])
    chosen = edgeformers("prepare", "edges.csv", "-o", "chosen", *when, "--split", "link=random")
    assert [answer.err for answer in (plain, made, chosen)] == ["", "", ""]


def test_an_existing_folder_is_not_touched(edgeformers, edges, tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "mine.txt").write_text("mine")
    for more in ((), ("--overwrite",)):
        answer = edgeformers("prepare", edges, "-o", "net", *QUICK, *more)
        assert "net" in refusal(answer, tmp_path, left=("edges.csv", "net"))
    assert (tmp_path / "net" / "mine.txt").read_text() == "mine"


def test_a_network_is_replaced_with_overwrite(edgeformers, edges, tmp_path):
    assert edgeformers("prepare", edges, "-o", "net", *QUICK).code == 0
    again = edgeformers("prepare", edges, "-o", "net", *QUICK)
    assert "net already exists" in refusal(again, tmp_path, left=("edges.csv", "net"))
    assert edgeformers("prepare", edges, "-o", "net", *QUICK, "--overwrite").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "net"]


def test_a_folder_with_other_files_is_never_replaced(edgeformers, edges, tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "network.json").write_text('{"name": "my-npm-package"}')
    (tmp_path / "net" / "thesis.tex").write_text("mine")
    overwrite = ("prepare", edges, "-o", "net", *QUICK, "--overwrite")
    sentence = refusal(edgeformers(*overwrite), tmp_path, left=("edges.csv", "net"))
    assert "net" in sentence
    assert sorted(path.name for path in (tmp_path / "net").iterdir()) == [
        "network.json",
        "thesis.tex",
    ]
    assert edgeformers("prepare", edges, "-o", "own", *QUICK).code == 0
    (tmp_path / "own" / "thesis.tex").write_text("mine")
    before = contents(tmp_path / "own")
    answer = edgeformers("prepare", edges, "-o", "own", *QUICK, "--overwrite")
    sentence = refusal(answer, tmp_path, left=("edges.csv", "net", "own"))
    assert "thesis.tex" in sentence
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


def test_a_full_disk_is_reported_in_one_sentence(edgeformers, edges, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("edgeformers.data.network.np.save", fail)
    answer = edgeformers("prepare", edges, "-o", "net", *QUICK)
    assert "net cannot be written: the disk is full" in refusal(answer, tmp_path)


def test_a_folder_that_cannot_be_written_is_refused(edgeformers, edges, tmp_path):
    answer = edgeformers("prepare", edges, "-o", f"{edges}/net", *QUICK)
    assert "edges.csv" in refusal(answer, tmp_path)


def test_an_unexpected_error_keeps_its_traceback(edgeformers, edges, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("unforeseen")

    monkeypatch.setattr("edgeformers.data.prepare.prepare", fail)
    with pytest.raises(RuntimeError, match="unforeseen"):
        edgeformers("prepare", edges, "-o", "net", *QUICK)


def test_the_examples_in_the_help_work(edgeformers, tmp_path):
    (tmp_path / "reviews.csv").write_text("user,item,review\na,b,good\nc,d,bad\n")
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "add", "reviews.csv"], check=True)
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *author, "commit", "-qm", "first"], check=True)
    assert len(run_examples("prepare")) == 3


def test_the_installed_program_runs(tmp_path):
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


def test_metadata_in_a_glob_over_amazon_files_is_suggested_as_nodes(edgeformers, tmp_path):
    for part in ("A", "B"):
        review = {
            "user_id": "u",
            "parent_asin": part,
            "text": "fine",
            "rating": 5.0,
            "timestamp": 0,
        }
        item = {"parent_asin": part, "title": part, "categories": ["Toys"]}
        (tmp_path / f"{part}.jsonl").write_text(json.dumps(review) + "\n")
        (tmp_path / f"meta_{part}.jsonl").write_text(json.dumps(item) + "\n")
    for pattern in ("*.jsonl", "*_*.jsonl"):
        refused = edgeformers("prepare", pattern, "-o", "net", *QUICK)
        assert refused.code == 2
        assert "--nodes 'meta_*'" in refused.err
    answer = edgeformers("prepare", "?.jsonl", "--nodes", "meta_*", "-o", "net", *QUICK)
    assert answer.code == 0, answer.err
    assert library.EdgeTextGraph.open(tmp_path / "net").node_label_names == ["Toys"]


def test_a_store_of_new_edges_is_merged(edgeformers, edges, tmp_path):
    with EdgeStore(tmp_path / "edges.sqlite") as store:
        store.append([StoredEdge(source="new", target="elsewhere", text="hello")])
    answer = edgeformers(
        "prepare", edges, "-o", "net", "--tokenizer", "none", "--add", "edges.sqlite"
    )
    assert answer.code == 0
    assert "21 edges with text from 6 sources to 4 targets" in answer.out
    assert "1 edges were added from edges.sqlite" in answer.out
    missing = edgeformers("prepare", edges, "-o", "other", *QUICK, "--add", "none.sqlite")
    assert missing.code == 2
    assert "none.sqlite: no such store" in missing.err
    assert not (tmp_path / "other").exists()
