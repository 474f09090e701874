"""Checkpoints on disk: what is called one is one, at whatever moment the process ends."""

import os
import shutil
import sys
from pathlib import Path

import pytest
import torch

from edgeformers.training import checkpoint
from edgeformers.training.checkpoint import (
    checkpoints,
    latest_checkpoint,
    load_checkpoint,
    remove_checkpoints,
)
from edgeformers.training.checkpoint import save_checkpoint as save


def test_a_state_is_read_back_as_it_was(tmp_path):
    rows = torch.randn(3, 2)
    state = {
        "tensors": {0: rows, "shared": rows, "view": rows.T, "bf16": rows.bfloat16()},
        "plain": [1, 2.5e-8, "a/b", None, True, -float("inf"), {"deep": [rows[:0]]}],
    }
    found = load_checkpoint(save(tmp_path, 3, state, keep=1))
    assert found["plain"][:6] == state["plain"][:6]
    assert list(found["tensors"]) == [0, "shared", "view", "bf16"]
    for name, value in state["tensors"].items():
        assert torch.equal(found["tensors"][name], value)
    assert found["plain"][6]["deep"][0].shape == (0, 2)


def test_the_last_ones_are_kept(tmp_path):
    for step in (1, 2, 10):
        save(tmp_path, step, {"step": step}, keep=2)
    assert [load_checkpoint(path)["step"] for path in checkpoints(tmp_path)] == [2, 10]
    assert latest_checkpoint(tmp_path / "none") is None


@pytest.mark.skipif(sys.platform != "linux", reason="looks at open files in /proc")
def test_all_are_removed_but_not_what_else_is_there(tmp_path):
    folder = tmp_path / "checkpoints"
    remove_checkpoints(folder)
    for step in (1, 2):
        save(folder, step, {"step": step}, keep=2)
    (folder / "notes.txt").write_text("mine")
    remove_checkpoints(folder)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    (folder / "notes.txt").unlink()
    remove_checkpoints(folder)
    assert not folder.exists()


def test_files_are_on_the_disk_before_they_are_called_a_checkpoint(tmp_path, monkeypatch):
    settled = []
    fsync = os.fsync

    def watch(number):
        settled.append(Path(f"/proc/self/fd/{number}").readlink().name)
        assert not checkpoints(tmp_path)
        fsync(number)

    monkeypatch.setattr(os, "fsync", watch)
    path = save(tmp_path, 1, {"x": torch.ones(2)}, keep=1)
    assert sorted(settled) == sorted(file.name for file in path.iterdir())


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("moment", ["writing", "renaming", "removing", "replacing"])
def test_a_process_killed_at_any_moment_leaves_whole_checkpoints(tmp_path, monkeypatch, moment):
    for step in (1, 2):
        save(tmp_path, step, {"x": torch.ones(2) * step}, keep=2)

    def die(*args, **kwargs):
        raise Killed

    def die_half_way(path, *args, **kwargs):
        next(path.iterdir()).unlink()
        raise Killed

    if moment == "writing":
        monkeypatch.setattr(checkpoint, "save_tensors", die)
    elif moment == "renaming":
        monkeypatch.setattr(checkpoint, "checkpoints", die)
    else:
        monkeypatch.setattr(shutil, "rmtree", die_half_way)
    again = 2 if moment == "replacing" else 3
    with pytest.raises(Killed):
        save(tmp_path, again, {"x": torch.ones(2) * 3}, keep=2)
    monkeypatch.undo()
    for path in checkpoints(tmp_path):
        assert load_checkpoint(path)["x"].shape == (2,)
    assert checkpoints(tmp_path)
    save(tmp_path, 4, {"x": torch.ones(2)}, keep=2)
    assert sorted(p.name for p in tmp_path.iterdir())[-1] == "step-000000004"
    assert not list(tmp_path.glob(".*"))
