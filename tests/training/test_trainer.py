"""The training loop: steps, validation, early stopping, memory, non-finite losses, resuming."""

import json
import re

import numpy as np
import pytest
import torch

from edgeformers.errors import FormatError
from edgeformers.training.checkpoint import checkpoints, load_checkpoint
from edgeformers.training.runlog import read_log
from edgeformers.training.trainer import TrainingError


@pytest.fixture(params=["edges", "links"])
def make(request, make_edges, make_links):
    """An objective of each task in turn."""
    return make_edges if request.param == "edges" else make_links


def state(objective):
    return {name: value.clone() for name, value in objective.modules.state_dict().items()}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_the_same_seed_gives_the_same_model_and_another_seed_another(make, make_trainer):
    found = []
    for seed in (1, 1, 2):
        objective = make(**{"train.seed": seed})
        torch.rand(seed)  # what stands outside must not matter
        make_trainer(objective, seed=seed).fit()
        found.append(state(objective))
    assert same(found[0], found[1])
    assert not same(found[0], found[2])


@pytest.mark.parametrize(("least", "threads"), [(1 << 30, 1), (1, 2)], ids=["small", "large"])
def test_a_small_step_uses_one_thread(make, make_trainer, monkeypatch, least, threads):
    monkeypatch.setattr("edgeformers.training.trainer.SMALL_STEP", least)
    objective = make()
    trainer, batch = make_trainer(objective), objective.make(objective.batches(0)[0], 0, None)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with trainer._threads([batch]):
            assert torch.get_num_threads() == threads
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_training_leaves_the_random_numbers_outside_alone(make_edges, make_trainer):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    make_trainer(make_edges(), epochs=1).fit()
    assert torch.equal(torch.rand(3), expected)


def test_a_log_has_every_step_and_every_validation_once(make, make_trainer, tmp_path):
    objective = make()
    progress = make_trainer(objective, tmp_path).fit()
    events = read_log(tmp_path / "metrics.jsonl")
    steps = [event["step"] for event in events if event["kind"] == "train"]
    per_epoch = len(objective.batches(0))
    assert steps == list(range(1, 2 * per_epoch + 1)) == list(range(1, progress.step + 1))
    val = [event for event in events if event["kind"] == "val"]
    assert [event["step"] for event in val] == [per_epoch, 2 * per_epoch]
    assert [event[objective.select] for event in val] == [
        one[objective.select] for one in progress.history
    ]


class Scripted:
    """Replaces an objective's validation by given scores."""

    def __init__(self, objective, scores):
        self.scores, self.seen = iter(scores), []
        objective.evaluate = self
        self.objective = objective

    def __call__(self, part):
        assert part == "val"
        self.seen.append(state(self.objective))
        return {self.objective.select: next(self.scores)}


def test_training_stops_when_validation_no_longer_improves_and_keeps_the_best(
    make_edges, make_trainer
):
    objective = make_edges()
    script = Scripted(objective, [0.1, 0.5, 0.4, 0.5, 0.3, 0.9])
    progress = make_trainer(objective, epochs=6, patience=3).fit()
    assert (progress.best_score, progress.best_epoch, progress.epoch) == (0.5, 1, 5)
    assert same(state(objective), script.seen[1])


def test_of_an_error_the_smallest_is_the_best(make_edges, make_trainer):
    objective = make_edges()
    objective.select = "mae"
    Scripted(objective, [0.5, 0.2, 0.4])
    assert make_trainer(objective, epochs=3).fit().best_epoch == 1


def test_a_nan_validation_score_is_never_the_best(make_edges, make_trainer, tmp_path):
    objective = make_edges()
    Scripted(objective, [float("nan"), 0.2])
    assert make_trainer(objective, tmp_path).fit().best_epoch == 1
    first = next(e for e in read_log(tmp_path / "metrics.jsonl") if e["kind"] == "val")
    assert first[objective.select] is None  # JSON has no NaN
    assert "NaN" not in (tmp_path / "metrics.jsonl").read_text()


def test_selecting_by_an_unknown_metric_is_refused(make_edges, make_trainer):
    objective = make_edges(**{"train.select_metric": "macro_f2"})
    with pytest.raises(TrainingError, match="macro_f2"):
        make_trainer(objective).fit()


def test_a_nan_loss_stops_with_the_step_and_edges_named(make, make_trainer, tmp_path):
    objective = make()
    poisoned = int(objective.batches(0)[2][5])
    source = int(objective.loader.graph.src[poisoned])
    trainer = make_trainer(objective, tmp_path)
    step = trainer.optimizers.step

    def poison(factor):
        step(factor)
        if trainer.state.step == 1:
            objective.model.nodes.table.data[source] = float("nan")

    trainer.optimizers.step = poison
    with pytest.raises(TrainingError, match="nan at step 3") as caught:
        trainer.fit()
    named = [int(i) for i in re.findall(r"\d+", str(caught.value).split("edges")[1])]
    assert set(named) <= set(objective.batches(0)[2].tolist())
    nonfinite = objective.find_nonfinite(objective.batches(0)[2], 0)
    assert poisoned in nonfinite
    assert 0 < len(nonfinite) < len(objective.batches(0)[2])
    assert [e["step"] for e in read_log(tmp_path / "metrics.jsonl")] == [1, 2]


def scarce(objective, most):
    """Out of memory with more than `most` examples in a forward pass, each encoded twice."""
    forward, sizes = objective.model.forward, []

    def limited(batch):
        if objective.model.training and torch.is_grad_enabled():
            sizes.append(len(batch) // 2)  # both ends of a link; an edge twice, for R-Drop
            if sizes[-1] > most:
                raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(batch)

    objective.model.forward = limited
    return sizes


def test_out_of_memory_halves_the_micro_batch(make, make_trainer, tmp_path, capsys):
    objective = make()
    sizes = scarce(objective, 13)
    trainer = make_trainer(objective, tmp_path)
    trainer.show = True
    assert trainer.fit().micro_batch_size == 12  # 48, 24, 12; not less for prefetched batches
    assert sum(size > 13 for size in sizes) == 2  # once with 48, once with 24
    events = [e for e in read_log(tmp_path / "metrics.jsonl") if e["kind"] == "memory"]
    assert [(e["step"], e["micro_batch"]) for e in events] == [(1, 24), (1, 12)]
    assert "train.micro_batch_size=24" in capsys.readouterr().err


def test_a_run_with_halved_micro_batches_equals_one_that_started_so(
    make, make_trainer, without_dropout
):
    objective, other = without_dropout(make()), without_dropout(make())
    scarce(objective, 13)
    make_trainer(objective, epochs=1).fit()
    make_trainer(other, epochs=1, micro_batch_size=12).fit()
    assert same(state(objective), state(other))


def test_out_of_memory_with_one_example_names_the_settings(make, make_trainer):
    objective = make()
    scarce(objective, 0)
    with pytest.raises(TrainingError, match=r"data.max_tokens.*gradient_checkpointing"):
        make_trainer(objective).fit()


def test_a_run_resumed_from_any_checkpoint_equals_an_uninterrupted_one(
    make, make_trainer, tmp_path
):
    whole = make()
    make_trainer(whole, tmp_path / "whole", keep_checkpoints=99).fit()
    events = [e for e in read_log(tmp_path / "whole/metrics.jsonl") if e["kind"] != "speed"]
    found = checkpoints(tmp_path / "whole/checkpoints")
    assert len(found) >= 5
    for number, kept in enumerate(found[:4]):
        folder = tmp_path / f"part{number}"
        (folder / "checkpoints").mkdir(parents=True)
        (folder / "checkpoints" / kept.name).symlink_to(kept)
        (folder / "metrics.jsonl").write_bytes((tmp_path / "whole/metrics.jsonl").read_bytes())
        part = make()
        make_trainer(part, folder, keep_checkpoints=99).fit()
        assert same(state(part), state(whole))
        again = [e for e in read_log(folder / "metrics.jsonl") if e["kind"] != "speed"]
        assert again == events


def test_a_finished_run_is_not_trained_again(make_edges, make_trainer, tmp_path):
    first = make_edges()
    make_trainer(first, tmp_path).fit()
    second = make_edges()
    second.backward = None
    assert make_trainer(second, tmp_path).fit().finished
    assert same(state(first), state(second))


def test_a_checkpoint_of_another_model_is_refused(make_edges, make_trainer, tmp_path):
    make_trainer(make_edges(), tmp_path).fit()
    wider = make_edges(**{"model.node_width": 24})
    with pytest.raises(FormatError, match="does not fit"):
        make_trainer(wider, tmp_path).fit()


def test_a_damaged_checkpoint_is_named_and_the_previous_one_can_be_used(
    make_edges, make_trainer, tmp_path
):
    whole = make_edges()
    make_trainer(whole, tmp_path).fit()
    newest = checkpoints(tmp_path / "checkpoints")[-1]
    (newest / "state.safetensors").write_bytes(b"half a file")
    with pytest.raises(FormatError, match=newest.name):
        make_trainer(make_edges(), tmp_path).fit()
    (newest / "state.safetensors").unlink()
    (newest / "state.json").unlink()
    newest.rmdir()
    again = make_edges()
    make_trainer(again, tmp_path).fit()
    assert same(state(again), state(whole))


def test_the_last_checkpoints_are_kept_and_no_partial_ones(make_edges, make_trainer, tmp_path):
    progress = make_trainer(make_edges(), tmp_path, keep_checkpoints=2).fit()
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert len(names) == 2
    assert names[-1] == f"step-{progress.step:09d}"
    saved = load_checkpoint(tmp_path / "checkpoints" / names[-1])
    assert saved["progress"]["finished"]
    json.dumps(saved["progress"])


def test_rows_of_nodes_outside_a_batch_do_not_change(make, make_trainer):
    objective = make()
    trainer = make_trainer(objective)
    kinds = [type(part).__name__ for part in trainer.optimizers.optimizers]
    assert kinds == ["AdamW", "RowAdam"]
    before = objective.model.nodes.table.detach().clone()
    ids = objective.batches(0)[0][:4]
    trainer.optimizers.zero_grad()
    torch.manual_seed(0)
    pieces = objective.make(ids, 0, None)
    objective.backward([pieces])
    trainer.optimizers.step(1.0)
    touched = {len(before) - 1}
    for piece in pieces:
        egos = getattr(piece, "egos", None)
        ends = (egos.center, egos.neighbor) if egos is not None else (piece.src, piece.dst)
        touched |= set(torch.cat(ends).tolist())
    changed = (objective.model.nodes.table.detach() != before).any(1).nonzero().flatten().tolist()
    assert set(changed) <= touched
    assert len(changed) > 2
    assert len(touched) < len(before)


def test_training_learns_what_there_is_to_learn(make_edges, make_trainer):
    objective = make_edges()
    progress = make_trainer(objective, epochs=12, lr=1e-3, node_lr=1e-2, head_lr=2e-3).fit()
    counts = np.bincount(objective.loader.graph.labels[objective.parts["val"]])
    assert max(h["micro_f1"] for h in progress.history) > 1.3 * counts.max() / counts.sum()
