"""A run folder belongs to one run from its first checkpoint on, and to one process at a time."""

import pytest

from edgeformers import EdgeClassifier
from edgeformers.data.network import PrepareConfig
from edgeformers.data.prepare import prepare_simulated
from edgeformers.errors import EdgeformersError, FormatError, InputError
from edgeformers.locks import BusyError, single_writer
from edgeformers.runs import read_config, train_run
from edgeformers.training.trainer import Trainer, TrainingError

SETTINGS = {"train.epochs": 1, "train.batch_size": 64, "train.checkpoint_every": 3}


def make(**settings):
    named = {f"train.{name}": value for name, value in settings.items()}
    changed = {**SETTINGS, **named}
    return EdgeClassifier("scratch:2x32", settings=changed, show=False, device="cpu")


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def failing(monkeypatch):
    """Training that fails at a step."""

    update = Trainer._update

    def fail_at(step):
        def fail(self, *args):
            if self.state.step + 1 == step:
                raise TrainingError("NaN")
            return update(self, *args)

        monkeypatch.setattr(Trainer, "_update", fail)

    return fail_at


@pytest.mark.parametrize("step", [1, 3])
def test_a_run_that_fails_before_its_first_checkpoint_claims_nothing(simulated, run, failing, step):
    failing(step)
    with pytest.raises(TrainingError):
        make(lr=1.0).fit(simulated, run=run)
    assert run.exists() == (step > 1)  # only its log is kept
    failing(10_000)
    make(lr=1e-4).fit(simulated, run=run)
    assert read_config(run).train.lr == 1e-4


def test_a_run_that_fails_after_its_first_checkpoint_can_only_be_resumed(simulated, run, failing):
    failing(5)
    with pytest.raises(TrainingError):
        make(lr=1e-3).fit(simulated, run=run)
    with pytest.raises(InputError, match="other settings"):
        make(lr=1e-4).fit(simulated, run=run)
    assert read_config(run).train.lr == 1e-3


def test_a_missing_backbone_leaves_no_folder(simulated, run):
    with pytest.raises(EdgeformersError):
        EdgeClassifier("no/such-backbone", show=False).fit(simulated, run=run)
    assert not run.exists()


@pytest.fixture(scope="module")
def finished(simulated, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "run"
    train_run(simulated, run, make().config, device="cpu", show=False)
    return run


def test_a_finished_run_keeps_no_checkpoints_and_no_lock(finished):
    names = {path.name for path in finished.iterdir()} - {"tensorboard"}
    assert names == {"config.toml", "run.json", "metrics.jsonl", "model", "results.json"}


def test_fitting_in_a_finished_folder_loads_the_model(simulated, finished, monkeypatch):
    monkeypatch.setattr(Trainer, "fit", None)
    again = make().fit(simulated, run=finished)
    assert again.evaluate("val")


def test_the_folder_of_a_run_on_another_network_is_refused(finished, tmp_path):
    plain = PrepareConfig(tokenizer=None, progress=False)
    other = prepare_simulated(tmp_path / "net", num_edges=200, seed=1, config=plain)
    with pytest.raises(InputError, match="another network"):
        make().fit(other, run=finished)


@pytest.mark.parametrize("name", ["model.safetensors", "nodes.parquet"])
def test_a_finished_run_is_verified_when_it_is_trained_again(simulated, finished, name):
    path = finished / "model" / name
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(FormatError, match=name):
        train_run(simulated, finished, make().config, device="cpu", show=False)
    path.write_bytes(content)
    train_run(simulated, finished, make().config, device="cpu", show=False)


def test_a_folder_that_another_process_writes_is_refused(simulated, run, monkeypatch):
    with single_writer(run, folder=True):
        monkeypatch.setattr("edgeformers.locks._held", _Nothing())  # as in another process
        with pytest.raises(BusyError):
            train_run(simulated, run, make().config, device="cpu", show=False)
        assert [path.name for path in run.iterdir()] == [".lock"]
        monkeypatch.undo()


class _Nothing:
    def get(self):
        return frozenset()


def test_a_finished_run_has_a_complete_card(simulated, run, monkeypatch):
    def fail(*args):
        raise EdgeformersError("killed")

    config = make().config
    with monkeypatch.context() as patch:
        patch.setattr("edgeformers.runs.write_model_card", fail)
        with pytest.raises(EdgeformersError):
            train_run(simulated, run, config, device="cpu", show=False)
    assert not (run / "results.json").exists()
    results = train_run(simulated, run, config, device="cpu", show=False)
    card = (run / "model" / "README.md").read_text()
    assert f"{results['test']['macro_f1']:.4f}" in card


def test_a_network_that_was_replaced_is_not_called_another_one(tmp_path):
    plain = PrepareConfig(tokenizer="train:200", progress=False)
    path, run = tmp_path / "net", tmp_path / "run"
    train_run(prepare_simulated(path, num_edges=200, config=plain), run, make().config, show=False)
    changed = prepare_simulated(path, num_edges=200, seed=1, config=plain, overwrite=True)
    with pytest.raises(InputError, match="changed") as error:
        train_run(changed, run, make().config, show=False)
    assert str(path) in str(error.value)
    assert str(run) in str(error.value)
