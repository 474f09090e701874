"""Two processes are as one: the same batches, gradients, weights and figures."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from edgeformers import distributed
from edgeformers.training.runlog import read_log
from edgeformers.training.trainer import TrainingError
from tests.training import processes, variants

HOME = Path(__file__).resolve().parents[1]


def launch(*arguments, world=2, timeout=240):
    """The same program in several processes, as torchrun starts it; their ends and words."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    around = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(world)}
    around |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(HOME), "CUDA_VISIBLE_DEVICES": ""}
    started = [
        subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            env={**os.environ, **around, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(world)
    ]
    try:
        words = [process.communicate(timeout=timeout)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    return [process.returncode for process in started], words


@pytest.fixture(scope="module")
def both(simulated, tmp_path_factory):
    """What one process and what two find: the folder, the figures, and those of either rank."""
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    ends, words = launch(HOME / "tests/training/processes.py", simulated.path, two)
    assert ends == [0, 0], "\n".join(words)
    alone = processes.train(str(simulated.path), one)
    ranks = [json.loads((two / f"found-{rank}.json").read_text()) for rank in (0, 1)]
    return one, two, json.loads(json.dumps(alone)), ranks


@pytest.mark.parametrize("task", ["edges", "links"])
def test_two_processes_learn_the_weights_of_one(both, task):
    one, two, _, _ = both
    for file in ("model.safetensors", "head.safetensors"):
        left, right = (load_file(home / task / "model" / file) for home in (one, two))
        assert left.keys() == right.keys()
        for name, value in left.items():
            torch.testing.assert_close(
                value, right[name], atol=1e-5, rtol=0, msg=lambda m, n=name: f"{n}: {m}"
            )


@pytest.mark.parametrize("task", ["edges", "links"])
def test_two_processes_evaluate_to_the_figures_of_one(both, task):
    _, _, alone, ranks = both
    assert ranks[0][task] == ranks[1][task]
    wanted = pytest.approx(numbers(alone[task]), rel=1e-4, abs=1e-6, nan_ok=True)
    assert numbers(ranks[0][task]) == wanted


@pytest.mark.parametrize("task", ["edges", "links"])
def test_two_processes_write_the_log_of_one(both, task):
    one, two, _, _ = both
    left, right = (read_log(home / task / "metrics.jsonl") for home in (one, two))
    assert [(e["kind"], e["step"]) for e in left] == [(e["kind"], e["step"]) for e in right]
    losses = [[e["loss"] for e in log if e["kind"] == "train"] for log in (left, right)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    assert not list((two / task / "checkpoints").glob(".*"))


def test_gradients_are_averaged_whether_or_not_every_process_has_them(both):
    for found in (rank["exchange"] for rank in both[3]):
        assert found["every"] == [1.5] * 3
        assert found["one"] == [0.5] * 3
        assert found["none"] is None  # as with one process: not decayed, not counted
        assert found["frozen"] is None
        assert found["table_is_sparse"]
        assert found["table"] == [[0, 0], [1, 1], [0, 0], [0, 0], [0.5, 0.5]]


def test_rows_are_gathered_and_gradients_flow_back_from_everywhere(both):
    for rank, found in enumerate(rank["exchange"] for rank in both[3]):
        assert found["rows"] == [[[1, 1]], [[2, 2]] * 3]
        assert found["row_grads"] == [[3, 3]] * (2 * rank + 1)  # 1 from rank 0, 2 from rank 1
        assert found["sharded"] == [[[i, i]] * i for i in range(5)]
        assert found["nothing"] == []
        assert (found["total"], found["mean"], found["from_main"]) == (4.0, 2.0, 0)


def test_examples_go_to_one_process_each_and_what_is_dropped_differs(both):
    first, second = (rank["exchange"] for rank in both[3])
    assert sorted(first["ids"] + second["ids"]) == list(range(7))
    assert first["seed"] != second["seed"]
    assert first["seed"] == distributed.step_seed(3, 5)


def test_a_failing_process_ends_the_other():
    ends, words = launch(HOME / "tests/training" / "failing_process.py", timeout=60)
    assert ends[1] == 1
    assert "rank 1 failed" in words[1]
    assert ends[0] != 0


@pytest.fixture(scope="module")
def by_world(simulated, tmp_path_factory):
    """Folders of the variants trained by one, two and four processes, and by three, then two."""
    folders = {world: tmp_path_factory.mktemp(f"world-{world}") for world in (1, 2, 4, "3, 2")}
    script = HOME / "tests/training/variants.py"
    for world, out in folders.items():
        phases = [(world, [])] if isinstance(world, int) else [(3, ["9"]), (2, [])]
        for processes_, more in phases:
            ends, words = launch(script, simulated.path, out, *more, world=processes_, timeout=900)
            assert ends == [0] * processes_, "\n".join(words)
    return folders


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 4, "3, 2"])
@pytest.mark.parametrize("name", variants.VARIANTS)
def test_metrics_and_weights_do_not_depend_on_the_number_of_processes(by_world, world, name):
    one, other = (by_world[1], by_world[world])
    found, alone = (json.loads((home / "found-0.json").read_text())[name] for home in (other, one))
    assert numbers(found) == pytest.approx(numbers(alone), abs=1e-4, nan_ok=True)
    for file in ("model.safetensors", "head.safetensors"):
        left, right = (load_file(home / name / "model" / file) for home in (one, other))
        assert left.keys() == right.keys()
        for key, value in left.items():
            torch.testing.assert_close(value, right[key], atol=1e-3, rtol=0)
    assert sum(e["kind"] == "train" for e in read_log(other / name / "metrics.jsonl")) > 9


def numbers(found, path=""):
    """All numbers in nested results, by their place."""
    if isinstance(found, dict | list):
        items = found.items() if isinstance(found, dict) else enumerate(found)
        return {k: v for key, item in items for k, v in numbers(item, f"{path}/{key}").items()}
    return {path: found} if isinstance(found, int | float) else {}


@pytest.mark.slow
def test_killed_processes_are_restarted_and_reach_the_same_result(simulated, tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    around = {**os.environ, "PYTHONPATH": str(HOME), "OMP_NUM_THREADS": "1"}
    script = HOME / "tests/training/elastic.py"
    for name, kills in (("undisturbed", []), ("killed", ["1:5", "0:11"])):  # 0 holds the lock
        subprocess.run(
            [*torchrun, "--max-restarts=5", script, simulated.path, tmp_path / name, *kills],
            env={**around, "CUDA_VISIBLE_DEVICES": ""},
            check=True,
            timeout=400,
            stderr=subprocess.DEVNULL,
        )
    one, other = tmp_path / "undisturbed", tmp_path / "killed"
    for file in ("results.json", "model/model.safetensors", "model/head.safetensors"):
        assert (one / file).read_bytes() == (other / file).read_bytes()
    logs = [read_log(run / "metrics.jsonl") for run in (one, other)]
    assert len({str([e for e in log if e["kind"] != "speed"]) for log in logs}) == 1
    assert not (other / ".lock").exists()


def test_memory_that_ends_in_one_of_several_processes_names_the_setting(
    make_edges, make_trainer, monkeypatch
):
    objective = make_edges()
    trainer = make_trainer(objective)
    monkeypatch.setattr(distributed, "world_size", lambda: 4)

    def no_memory(batches):
        raise torch.OutOfMemoryError("CUDA out of memory")

    objective.backward = no_memory
    with pytest.raises(TrainingError, match=r"48 .*train.micro_batch_size"):
        trainer._gradients([[objective.loader.batch(objective.batches(0)[0])]])


def test_alone_everything_is_what_it_is():
    rows = torch.ones(2, 2)
    assert distributed.gather_rows(rows)[0] is rows
    assert (distributed.rank(), distributed.world_size(), distributed.is_main()) == (0, 1, True)
    assert (distributed.all_sum(2.5), distributed.all_mean(2.5), distributed.broadcast([1])) == (
        2.5,
        2.5,
        [1],
    )
    done = []
    with distributed.main_first():
        done.append(1)
    distributed.run_on_main(lambda: done.append(2))
    assert done == [1, 2]
