"""A run that starts from an earlier one, on a network that has changed since."""

import json
import random
import shutil

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

import edgeformers
from edgeformers import EdgeClassifier, LinkPredictor
from edgeformers.errors import ConfigError, FormatError, InputError
from edgeformers.runs import read_config, train_run
from edgeformers.training.trainer import Trainer, TrainingError
from tests.estimators.conftest import EDGES, LINKS

KINDS = (EdgeClassifier, LinkPredictor)
FAST = {"train.epochs": 1, "train.checkpoint_every": 2, "train.batch_size": 16}


def edges(count, *, classes=2):
    """Rows of a table that only grows at its end; "n0" is both a source and a target."""
    drawn = random.Random(0)
    sources = [f"n{drawn.randrange(4 + i // 12)}" for i in range(count)]
    targets = [f"n{drawn.randrange(3 + i // 20)}" for i in range(count)]
    words = [f"{'good' if i % classes else 'bad'} number {i % 7}" for i in range(count)]
    return pd.DataFrame(
        {
            "source": sources,
            "target": targets,
            "text": words,
            "label": [f"class{i % classes}" for i in range(count)],
            "time": pd.date_range("2026-01-01", periods=count, freq="h").astype(str),
        }
    )


def network(rows, out, splits=("edge=chronological", "link=chronological"), **options):
    columns = {name: name for name in rows.columns}
    return edgeformers.prepare(
        rows,
        out,
        **columns,
        splits=[*splits],
        tokenizer=None,
        progress=False,
        **options,
    )


def tiny(kind, **settings):
    base = EDGES if kind is EdgeClassifier else LINKS
    return kind("scratch:2x32", settings={**base, **FAST, **settings}, show=False, device="cpu")


def later(kind, run, settings=None, **options):
    return kind(start_from=run, settings=settings, show=False, device="cpu", **options)


@pytest.fixture(scope="module")
def yesterday(tmp_path_factory):
    """The runs of both tasks on the first 200 edges, by kind."""
    folder = tmp_path_factory.mktemp("yesterday")
    graph = network(edges(200), folder / "network")
    for kind in KINDS:
        train_run(graph, folder / kind.task, tiny(kind).config, device="cpu", show=False)
    return folder


@pytest.fixture(scope="module")
def tonight(tmp_path_factory):
    """Tonight's network: 60 more edges, rows in another order, and "n1" gone as a source."""
    rows = edges(260)
    rows = rows[rows["source"] != "n1"].sample(frac=1, random_state=0)
    return network(rows, tmp_path_factory.mktemp("tonight") / "network")


@pytest.mark.parametrize("kind", KINDS)
def test_nodes_keep_their_vectors_by_id_and_side(kind, yesterday, tonight):
    parent = edgeformers.load(yesterday / kind.task).fitted_
    objective = later(kind, yesterday / kind.task).make_objective(tonight)
    index, table = tonight.node_index, objective.model.nodes.table
    old = parent.model.nodes
    new = 0
    for number, name in enumerate(index.ids_of(range(len(index)))):
        side = "source" if number < index.num_sources else "target"
        (before,) = parent.nodes.numbers([name], side).tolist()
        is_known = before >= 0 and bool(old.is_seen[before])
        new += not is_known
        assert torch.equal(table[number], old.table[before if is_known else -1]), name
    assert 0 < new < len(index)
    assert torch.equal(table[-1], old.table[-1])  # the unknown node
    assert index.ids.to_pylist() != parent.nodes.ids.to_pylist()[: len(index)]
    assert index.numbers(["n1"], "source") == -1  # removed


@pytest.mark.parametrize("kind", KINDS)
def test_everything_else_is_what_the_earlier_run_learned(kind, yesterday, tonight):
    parent = edgeformers.load(yesterday / kind.task).fitted_
    objective = later(kind, yesterday / kind.task).make_objective(tonight)
    trained = dict(parent.model.named_parameters())
    for name, parameter in objective.model.named_parameters():
        if name != "nodes.table":
            assert torch.equal(parameter, trained[name]), name
    if kind is EdgeClassifier:
        assert torch.equal(objective.head.head.weight, parent.head.head.weight)
    else:
        assert objective.head.weight == parent.head.weight
        anew = tiny(LinkPredictor).make_objective(tonight)
        assert torch.equal(objective.head.bias, anew.head.bias)  # popularity is counted anew
    assert objective.fitted.tokenizer.to_str() == parent.tokenizer.to_str()


def test_the_new_examples_and_some_of_the_others_are_trained_on(yesterday, tonight):
    run, parts = yesterday / "link-prediction", {}
    for replay in (0.0, 1.0, 100.0):
        made = later(LinkPredictor, run, {"train.replay": replay}).make_objective(tonight)
        parts[replay] = set(made.examples.tolist())
    train = made.parts["train"]
    last = edgeformers.load(run).fitted_.network_facts["last_training_time"]
    newest = set(train[tonight.times[train] >= last].tolist())  # edges of "n1" are gone
    count = len(newest)
    assert count > 10
    assert all(newest <= chosen for chosen in parts.values())
    assert len(parts[0.0]) == count + made.batch_size  # at least a batch of earlier ones
    assert len(parts[1.0]) == 2 * count
    assert parts[100.0] == set(train.tolist())


@pytest.mark.parametrize("timed", [True, False])
def test_as_many_examples_are_new_as_the_training_part_has_grown_by(timed, tmp_path):
    rows, run = edges(260), tmp_path / "run"
    rows = rows if timed else rows.drop(columns="time")
    splits = ["link=chronological"] if timed else ["link=random"]
    before = network(rows[:200], tmp_path / "before", splits)
    train_run(before, run, tiny(LinkPredictor).config, device="cpu", show=False)
    graph = network(rows, tmp_path / "after", splits)
    made = later(LinkPredictor, run, {"train.replay": 0.0}).make_objective(graph)
    train = made.parts["train"].tolist()
    assert set(made.examples.tolist()) >= set(train[-42:])  # 70% of 60
    assert len(made.examples) == 42 + made.batch_size


@pytest.mark.parametrize("unit", ["h", "D"])
def test_edges_since_the_earlier_run_are_new_though_as_many_are_gone(unit, tmp_path):
    """A window of 200 rows moves by 60; by day, the earlier training part ends within a day."""
    rows, run = edges(260), tmp_path / "run"
    rows["time"] = pd.to_datetime(rows["time"]).dt.floor(unit).astype(str)
    before = network(rows[:200], tmp_path / "before")
    train_run(before, run, tiny(LinkPredictor).config, device="cpu", show=False)
    graph = network(rows[60:], tmp_path / "after")
    made = later(LinkPredictor, run, {"train.replay": 0.0}).make_objective(graph)
    assert made.parts["train"].tolist() == [*range(140)]  # 70%; those from 80 on are new
    assert set(made.examples.tolist()) >= {*range(80, 140)}
    assert len(made.examples) <= 60 + 24 + made.batch_size


@pytest.mark.parametrize("kind", KINDS)
def test_a_warm_started_run_is_a_run_like_any_other(kind, yesterday, tonight, tmp_path):
    parent, run = yesterday / kind.task, tmp_path / "tonight"
    config = later(kind, parent).config
    assert train_run(tonight, run, config, device="cpu", show=False)["test"]
    assert read_config(run).train.start_from == str(parent)
    recorded = json.loads((run / "run.json").read_text())["start_from"]
    assert recorded["run"] == str(parent)
    assert f"`{parent.name}`" in (run / "model" / "README.md").read_text()
    assert train_run(tonight, run, config, device="cpu", show=False)["test"]  # finished: as it is
    fitted = edgeformers.load(run)
    if kind is LinkPredictor:
        assert fitted.recommend("n0", k=2)
    next_night = later(kind, run).fit(tonight)
    assert next_night.config.train.epochs == 1
    shared = next_night.save_pretrained(tmp_path / "shared")
    assert str(tmp_path) not in (shared / "config.json").read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_warm_start_resumes_to_the_same_result(
    kind, yesterday, tonight, tmp_path, monkeypatch
):
    config = later(kind, yesterday / kind.task).config
    train_run(tonight, tmp_path / "whole", config, device="cpu", show=False)
    update = Trainer._update

    def fail(self, *args):
        if self.state.step == 3:
            raise TrainingError("killed")
        return update(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_update", fail)
        with pytest.raises(TrainingError):
            train_run(tonight, tmp_path / "cut", config, device="cpu", show=False)
    assert (tmp_path / "cut" / "checkpoints").is_dir()
    train_run(tonight, tmp_path / "cut", config, device="cpu", show=False)
    for file in ("model.safetensors", "head.safetensors"):
        one, other = (load_file(tmp_path / run / "model" / file) for run in ("whole", "cut"))
        assert one.keys() == other.keys()
        assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_an_interrupted_run_whose_parent_has_changed_does_not_resume(
    yesterday, tonight, tmp_path, monkeypatch
):
    parent = edgeformers.load(yesterday / "link-prediction").save(tmp_path / "parent")
    config = later(LinkPredictor, parent).config

    def fail(self, *args):
        raise TrainingError("killed")

    monkeypatch.setattr(Trainer, "_end_epoch", fail)
    with pytest.raises(TrainingError):
        train_run(tonight, tmp_path / "run", config, device="cpu", show=False)
    (parent / "config.json").write_text((parent / "config.json").read_text() + "\n")
    with pytest.raises(InputError, match="changed"):
        train_run(tonight, tmp_path / "run", config, device="cpu", show=False)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"model.node_width": 32}, "node_width"),
        ({"model.backbone": "scratch:2x64"}, "backbone"),
        ({"model.name": "bert-n"}, "name"),
        ({"model.pooling": "mean"}, "pooling"),
    ],
)
def test_another_model_is_refused(yesterday, settings, word):
    with pytest.raises(ConfigError, match=word):
        later(LinkPredictor, yesterday / "link-prediction", settings)


def test_another_task_recipe_or_kind_of_folder_is_refused(yesterday, tmp_path):
    with pytest.raises(ConfigError, match="link-prediction"):
        later(EdgeClassifier, yesterday / "link-prediction")
    with pytest.raises(ConfigError, match="recipe"):
        later(LinkPredictor, yesterday / "link-prediction", recipe="fast")
    with pytest.raises(InputError, match="no such folder"):
        later(LinkPredictor, tmp_path / "nothing")
    (tmp_path / "config.toml").write_text(tiny(LinkPredictor).config.to_toml())
    with pytest.raises(InputError, match="not finished"):
        later(LinkPredictor, tmp_path)


def test_a_split_that_tests_on_edges_of_the_earlier_run_is_refused(tmp_path):
    graph, run = network(edges(200), tmp_path / "network"), tmp_path / "run"
    train_run(graph, run, tiny(LinkPredictor).config, device="cpu", show=False)
    with pytest.raises(InputError, match="trained"):
        later(LinkPredictor, run, {"data.split": "random"}).fit(graph)
    later(LinkPredictor, run, {"data.split": "chronological:0.9/0.05/0.05"}).fit(graph)


def test_a_run_on_a_split_that_is_gone_may_be_continued(tmp_path):
    config = tiny(LinkPredictor).config
    first = network(edges(200), tmp_path / "network")
    train_run(first, tmp_path / "run", config, device="cpu", show=False)
    shutil.rmtree(tmp_path / "network")
    again = network(edges(200), tmp_path / "network", splits=["later=chronological"])
    later(LinkPredictor, tmp_path / "run", {"data.split": "later"}).fit(again)


def test_edges_before_the_end_of_the_earlier_training_are_not_held_out(tmp_path):
    """Rows of earlier years are added, so that training ends sooner."""
    config, table = tiny(LinkPredictor).config, edges(400)
    train_run(
        network(table[200:], tmp_path / "new"), tmp_path / "run", config, device="cpu", show=False
    )
    with pytest.raises(InputError, match="until"):
        later(LinkPredictor, tmp_path / "run").fit(network(table, tmp_path / "all"))


@pytest.mark.parametrize("lacks_times", ["yesterday", "tonight", None])
def test_edges_that_the_earlier_run_may_have_been_trained_on_are_not_held_out(
    tmp_path, lacks_times
):
    """A split by time and a random one, or one of them without times."""
    chronological, by_source = ["link=chronological"], ["link=per-source"]
    before, after = edges(200), edges(260)
    splits = chronological, by_source
    if lacks_times == "yesterday":
        before, splits = before.drop(columns="time"), (by_source, chronological)
    if lacks_times == "tonight":
        after = after.drop(columns="time")
    graph = network(before, tmp_path / "before", splits[0])
    train_run(graph, tmp_path / "run", tiny(LinkPredictor).config, device="cpu", show=False)
    grown = network(after, tmp_path / "after", splits[1])
    with pytest.raises(InputError, match="times" if lacks_times else "until"):
        later(LinkPredictor, tmp_path / "run").fit(grown)


def test_it_says_what_the_earlier_run_knows(yesterday, tonight, capsys):
    run = yesterday / "link-prediction"
    objective = LinkPredictor(start_from=run, device="cpu").make_objective(tonight)
    shown, parent = capsys.readouterr().err, edgeformers.load(run).fitted_
    numbers = objective.fitted.nodes.numbers_in(parent.nodes)
    known = (numbers >= 0) & parent.model.nodes.is_seen.numpy()[numbers]
    assert 0 < known.sum() < len(known)
    assert f" {known.sum()} of " in shown


def test_a_damaged_run_is_refused(yesterday, tmp_path):
    damaged = edgeformers.load(yesterday / "link-prediction").save(tmp_path / "damaged")
    facts = json.loads((damaged / "config.json").read_text())
    facts["extra"]["config"] = [1]
    (damaged / "config.json").write_text(json.dumps(facts))
    with pytest.raises(FormatError, match="damaged"):
        later(LinkPredictor, damaged)


def test_settings_of_training_may_change(yesterday):
    given = {"train.epochs": 2, "train.lr": 1e-4, "model.node_dropout": 0.2}
    config = later(LinkPredictor, yesterday / "link-prediction", given, seed=7).config
    before = read_config(yesterday / "link-prediction")
    assert (config.train.epochs, config.train.lr, config.train.seed) == (2, 1e-4, 7)
    assert config.model.node_dropout == 0.2
    assert (config.recipe, config.links) == (before.recipe, before.links)


def test_other_classes_or_types_are_refused(yesterday, tmp_path):
    typed = network(edges(220).assign(edge_type=["a", "b"] * 110), tmp_path / "typed")
    with pytest.raises(InputError, match="2 edge types"):
        later(LinkPredictor, yesterday / "link-prediction").fit(typed)
    more = network(edges(220, classes=3), tmp_path / "more")
    with pytest.raises(InputError, match="class2"):
        later(EdgeClassifier, yesterday / "edge-classification").fit(more)
    alone = network(edges(220), tmp_path / "alone", bipartite=False)
    with pytest.raises(InputError, match="node type"):
        later(LinkPredictor, yesterday / "link-prediction").fit(alone)


@pytest.mark.parametrize(
    "settings",
    [
        {"model.name": "mean-sage-words", "links.ensemble": False},
        {"links.popularity_bias": False, "model.node_shrinkage": 2.0},
    ],
    ids=["words", "shrinkage"],
)
def test_other_models_start_warm_too(settings, yesterday, tonight, tmp_path):
    before = edgeformers.data.graph.EdgeTextGraph.open(yesterday / "network")
    fitted = tiny(LinkPredictor, **settings).fit(before)
    parent = fitted.save(tmp_path / "parent")
    assert later(LinkPredictor, parent).fit(tonight).evaluate()["full/mrr"] > 0
