"""Threads: the limits of a process and its container, and what the program sets."""

import os
import subprocess
import sys

import pytest

from edgeformers import threads


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, float("inf")),
        ({"cpu.max": "max 100000"}, float("inf")),
        ({"cpu.max": "150000 100000"}, 1.5),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, float("inf")),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3.0),
    ],
)
def test_the_limit_of_a_container_is_read(tmp_path, files, limit):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert threads.cpu_limit(tmp_path) == limit


@pytest.mark.parametrize(("limit", "cores"), [(0.2, 1), (1.5, 2), (3.0, 3), (float("inf"), 4)])
def test_cores_are_those_of_the_affinity_within_the_limit(monkeypatch, limit, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 4, 5}, raising=False)
    monkeypatch.setattr(threads, "cpu_limit", lambda: limit)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert threads.available_cores() == threads.num_threads() == cores


@pytest.mark.parametrize(("wanted", "number"), [("3", 3), ("2,1", 2), ("", 4), ("0", 4)])
def test_the_number_of_threads_is_the_users_choice(monkeypatch, wanted, number):
    monkeypatch.setattr(threads, "available_cores", lambda: 4)
    monkeypatch.setenv("OMP_NUM_THREADS", wanted)
    assert threads.num_threads() == number


def test_defaults_respect_what_is_set(monkeypatch):
    monkeypatch.setattr(threads, "cpu_limit", lambda: 1.0)
    monkeypatch.setattr(threads, "_assigned_cores", lambda: 8)
    chosen = {"OMP_WAIT_POLICY": "ACTIVE", "OMP_NUM_THREADS": "4"}
    for before, after in (
        ({}, {"OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "1"}),
        (chosen, chosen),
    ):
        monkeypatch.setattr(os, "environ", dict(before))
        threads.set_thread_defaults()
        assert os.environ == after


def test_the_program_sets_defaults_before_torch_is_imported_and_the_package_sets_none():
    script = """
import os, sys
before = dict(os.environ)
import edgeformers
from edgeformers.cli.main import run
assert dict(os.environ) == before and "torch" not in sys.modules
sys.argv[1:] = ["--version"]
try:
    run()
except SystemExit:
    print(os.environ["OMP_WAIT_POLICY"], "torch" in sys.modules)
"""
    clean = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=clean, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-2:] == ["PASSIVE", "False"]
