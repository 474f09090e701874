"""A full disk is one sentence wherever it happens, and nothing incomplete is left behind."""

import errno
import tempfile

import pytest

from edgeformers.file_errors import file_error_sentence
from tests.cli.conftest import TINY, call
from tests.torture.faults import can_mount, failing_writes, leftovers, tiny_disk

PREPARE = ("prepare", "simulated", "--edges", 200, "--tokenizer", "train:200", "--quiet")
COMMANDS = {
    "prepare": (*PREPARE, "-o"),
    "embed": ("embed", "run-links", "--nodes", "--quiet", "-o"),
    "report": ("report", "run-links", "-o"),
    "predict": ("predict", "run-edges", "new.csv", "-o"),
}
OUTPUTS = {"prepare": "net", "embed": "v.parquet", "report": "page.html", "predict": "out.csv"}


@pytest.fixture
def new_edges(home):
    (home / "new.csv").write_text("source,target,text\nada,tent,Too small.\n")


def names_below(folder):
    return [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]


def check_failure(answer, folder):
    assert answer.code == 2, answer
    assert answer.err.count("\n") == 1, answer.err
    assert "disk is full" in answer.err
    assert answer.err.count("disk is full") == 1
    assert not leftovers(folder)


@pytest.mark.usefixtures("new_edges")
@pytest.mark.parametrize("points", [3, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_disk_that_is_full_at_any_write(command, points, home, tmp_path):
    args, name = COMMANDS[command], OUTPUTS[command]
    with failing_writes(tmp_path) as disk:
        answer = call(*args, tmp_path / "whole" / name)
    assert answer.code == 0, answer.err
    total = disk.writes
    assert total >= 3
    assert set(names_below(tmp_path)) == {f"whole/{name}"} or command == "prepare"
    for nth in sorted({*range(1, total, -(-total // points)), total}):
        folder = tmp_path / str(nth)
        with failing_writes(tmp_path, nth) as disk:
            answer = call(*args, folder / name)
        assert disk.has_failed, nth
        check_failure(answer, folder)
        assert not (folder / name).exists()


@pytest.mark.usefixtures("new_edges")
@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.EACCES, "permission denied"),
        (errno.EROFS, "read-only"),
        (errno.EDQUOT, "quota"),
        (errno.ENAMETOOLONG, "too long"),
    ],
)
@pytest.mark.parametrize("command", [*COMMANDS, "train"])
def test_a_place_that_cannot_be_written_is_named(command, code, words, home, tmp_path):
    train = ("train", "edge-classification", "network", *TINY, "-o")
    args, out = COMMANDS.get(command, train), tmp_path / "new" / OUTPUTS.get(command, "run")
    with failing_writes(tmp_path, 1, code):
        answer = call(*args, out)
    assert answer.code == 2
    assert words in answer.err
    assert str(out) in answer.err
    assert answer.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("new_edges")
def test_without_a_temporary_folder(home, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)
    assert call("evaluate", "run-edges", "--quiet").code == 0
    assert call("embed", "run-links", "--nodes", "--quiet", "-o", tmp_path / "v.parquet").code == 0
    with pytest.raises(FileNotFoundError) as caught:
        tempfile.mkdtemp()
    assert "TMPDIR" in file_error_sentence(caught.value)


@pytest.mark.slow
def test_training_on_a_disk_that_is_full_at_any_write(home, tmp_path):
    args = ("train", "edge-classification", "network", *TINY, "--set", "train.checkpoint_every=2")
    with failing_writes(tmp_path) as disk:
        assert call(*args, "-o", tmp_path / "whole").code == 0
    total = disk.writes
    for nth in sorted({*range(1, total, -(-total // 50)), total}):
        run = tmp_path / str(nth)
        with failing_writes(tmp_path, nth) as disk:
            answer = call(*args, "-o", run)
        assert disk.has_failed, nth
        check_failure(answer, tmp_path)
        assert not (run / "results.json").exists()
    answer = call(*args, "-o", run)  # there is space again
    assert answer.code == 0, answer.err
    results = [(path / "results.json").read_bytes() for path in (tmp_path / "whole", run)]
    assert results[0] == results[1]


@pytest.mark.skipif(not can_mount(), reason="needs root")
@pytest.mark.parametrize("kilobytes", [4, 64, 112])
def test_preparing_on_a_tiny_disk(kilobytes, tmp_path):
    with tiny_disk(tmp_path / "disk", kilobytes) as folder:
        check_failure(call(*PREPARE, "-o", folder / "net"), folder)
        assert not list(folder.iterdir())
