"""Callbacks see what is logged; the three trackers store it without a network."""

import sys
from types import ModuleType

import pytest

from edgeformers.config import TrainSettings
from edgeformers.errors import InputError, MissingExtraError
from edgeformers.training.callbacks import Callback, MLflow, TensorBoard, WandB, make_callback
from edgeformers.training.runlog import read_log
from edgeformers.training.trainer import Trainer
from tests.cli.conftest import TINY, call
from tests.conftest import CPU


class Recorder(Callback):
    """Keeps everything."""

    def __init__(self):
        self.calls = []

    def on_start(self, config, folder, step):
        self.calls.append(("start", config["task"], folder, step))

    def on_event(self, kind, step, values):
        self.calls.append((kind, step, values))

    def on_end(self):
        self.calls.append(("end",))


def train(objective, folder, callback, **settings):
    settings = TrainSettings(**{"epochs": 1, **settings})
    Trainer(objective, settings, device=CPU, folder=folder, show=False, callbacks=[callback]).fit()


def test_a_callback_sees_every_event_of_the_log(make_edges, tmp_path):
    recorder = Recorder()
    train(make_edges(), tmp_path, recorder)
    start, *events, end = recorder.calls
    assert start == ("start", "edge-classification", tmp_path, 0)
    assert end == ("end",)
    logged = read_log(tmp_path / "metrics.jsonl")
    assert events == [(e.pop("kind"), e.pop("step"), e) for e in logged]
    assert {kind for kind, *_ in events} >= {"train", "val"}


def test_a_callback_needs_no_run_folder(make_edges):
    recorder = Recorder()
    train(make_edges(), None, recorder)
    assert len(recorder.calls) > 3


def test_a_callback_ends_when_training_fails(make_edges, tmp_path):
    class Failing(Recorder):
        def on_event(self, kind, step, values):
            raise RuntimeError("a callback failed")

    callback = Failing()
    with pytest.raises(RuntimeError, match="a callback failed"):
        train(make_edges(), tmp_path, callback)
    assert callback.calls[-1] == ("end",)


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_gets_the_numbers(make_edges, tmp_path):
    event_accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    train(make_edges(), tmp_path, TensorBoard())
    read = event_accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    read.Reload()
    assert {"train/loss", "val/macro_f1"} <= set(read.Tags()["scalars"])
    losses = [e["loss"] for e in read_log(tmp_path / "metrics.jsonl") if e["kind"] == "train"]
    assert [event.value for event in read.Scalars("train/loss")] == pytest.approx(losses)


def test_tensorboard_needs_a_folder(make_edges):
    pytest.importorskip("tensorboard")
    with pytest.raises(InputError, match="folder"):
        train(make_edges(), None, TensorBoard())


@pytest.mark.filterwarnings("ignore")
def test_mlflow_stores_metrics_and_settings_in_files(make_edges, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = (tmp_path / "mlruns").as_uri()
    train(make_edges(), tmp_path / "run", MLflow("tests", tracking_uri=uri))
    client = mlflow.MlflowClient(uri)
    (run,) = client.search_runs([client.get_experiment_by_name("tests").experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["task"] == "edge-classification"
    losses = client.get_metric_history(run.info.run_id, "train/loss")
    logged = read_log(tmp_path / "run" / "metrics.jsonl")
    assert len(losses) == sum(event["kind"] == "train" for event in logged)
    assert "val/macro_f1" in run.data.metrics


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_wandb_stores_a_run_offline(make_edges, tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    train(make_edges(), tmp_path, WandB(project="tests", mode="offline"))
    assert list((tmp_path / "wandb").glob("offline-run-*/*.wandb"))


def test_wandb_gets_settings_and_numbers(make_edges, tmp_path, monkeypatch):
    seen = []

    class Run:
        def log(self, values, step):
            seen.append((step, values))

        def finish(self):
            seen.append("finished")

    fake = ModuleType("wandb")
    fake.init = lambda **given: seen.append(given) or Run()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    train(make_edges(), tmp_path / "run", WandB(project="tests", mode="offline"))
    given, *logged, last = seen
    assert (given["project"], given["mode"], given["name"]) == ("tests", "offline", "run")
    assert given["config"]["train.epochs"] == 2  # of the estimator that made the objective
    assert any("val/macro_f1" in values for _, values in logged)
    assert last == "finished"


def test_a_missing_package_is_named_before_any_work(monkeypatch):
    for name in ("wandb", "mlflow", "tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(MissingExtraError, match=rf"edgeformers\[{name}\]"):
            make_callback(name)
    with pytest.raises(InputError, match="wandb"):
        make_callback("wandbb")


@pytest.mark.filterwarnings("ignore")
def test_the_command_logs_to_tensorboard(trained, tmp_path):
    pytest.importorskip("tensorboard")
    run, network = tmp_path / "run", trained / "network"
    task = "edge-classification"
    answer = call("train", task, network, "-o", run, *TINY, "--log-to", "tensorboard")
    assert answer.code == 0, answer.err
    assert list((run / "tensorboard").iterdir())
    answer = call("train", task, network, "-o", tmp_path / "no", *TINY, "--log-to", "nowhere")
    assert answer.code == 2
    assert not (tmp_path / "no").exists()
