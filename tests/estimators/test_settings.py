"""What recipes take from a network: strata of edges (`paper`), and its size (`default`)."""

from dataclasses import replace

import pytest
import torch

from edgeformers.cli.train import Train
from edgeformers.config import PAPER_RECIPES, make_config
from edgeformers.data import loader
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig
from edgeformers.data.splits import TRAIN
from edgeformers.estimators import EdgeClassifier, LinkPredictor, run_config
from edgeformers.estimators.build import num_training_edges
from edgeformers.experiments.model_rows import ROWS
from edgeformers.experiments.plan import ExperimentOptions, row_config
from edgeformers.training.data_settings import size_settings

EDGES, LINKS = "edge-classification", "link-prediction"
GPU = torch.device("cuda")
ROW = ROWS["edgeformer-n"]


@pytest.fixture
def starred(make_network):
    """A network of which only edges with the label 5 are links."""
    rows = [
        {"source": f"s{i % 7}", "target": f"t{i % 9}", "text": "good", "label": str(4 + i % 2)}
        for i in range(126)
    ]
    config = PrepareConfig(tokenizer="train:8000", progress=False, positive_labels=["5"])
    return make_network(rows, config=config)


def sampled(config):
    return config.data.strata, config.data.source_neighbors, config.data.target_neighbors


@pytest.mark.parametrize("recipe", PAPER_RECIPES)
def test_paper_samples_positive_and_negative_edges_separately(starred, recipe):
    wanted = ("positive", [8, 8], [10, 10])
    assert sampled(run_config(LINKS, recipe, graph=starred)) == wanted
    assert sampled(row_config(ROW, starred, ExperimentOptions(recipe=recipe))) == wanted
    command = Train(task=LINKS, network=starred.path, out=starred.path.parent, recipe=recipe)
    assert sampled(command._run_config()) == wanted


def test_other_recipes_tasks_and_networks_have_no_strata(starred, simulated):
    for config in (
        run_config(LINKS, graph=starred),
        run_config("edge-classification", "paper", graph=starred),
        run_config(LINKS, "paper", graph=simulated),
    ):
        assert config.data.strata == "none"


def test_published_numbers_of_neighbors_and_the_user_s_settings_come_first(starred):
    sizes = {"source": [3, 3], "target": [5, 5]}
    known = EdgeTextGraph(starred.path, replace(starred.meta, neighbors=sizes))
    assert sampled(run_config(LINKS, "paper", graph=known)) == ("positive", [3, 3], [5, 5])
    single = {"source": [8], "target": [10]}  # as for Goodreads-Crime
    known = EdgeTextGraph(starred.path, replace(starred.meta, neighbors=single))
    assert sampled(run_config(LINKS, "paper", graph=known)) == ("none", [8], [10])
    settings = {"data.strata": "none", "data.source_neighbors": [4], "data.target_neighbors": [6]}
    config = run_config(LINKS, "paper", settings=settings, graph=starred)
    assert sampled(config) == ("none", [4], [6])


def test_an_estimator_takes_them_when_it_meets_the_network(starred):
    settings = {"data.source_neighbors": [2, 1]}
    predictor = LinkPredictor("scratch:2x32", recipe="paper", settings=settings, show=False)
    objective = predictor.make_objective(starred)
    assert sampled(objective.fitted.config) == ("positive", [2, 1], [10, 10])
    assert predictor.config == objective.fitted.config
    assert objective.loader.target_sampler.adjacency.num_strata == 2
    again = LinkPredictor(config=run_config(LINKS, "paper"), show=False)
    assert again.config.data.strata == "none"


def batch_of(config):
    return config.train.batch_size, config.train.lr, config.train.head_lr, config.train.node_lr


def test_batches_and_rates_grow_with_the_data_on_a_gpu(starred, monkeypatch):
    usual = run_config(LINKS)
    assert run_config(LINKS, graph=starred, device=GPU) == usual  # few links
    few = dict.fromkeys(loader.GPU_MIN_UPDATES, 0.05)
    monkeypatch.setattr(loader, "GPU_MIN_UPDATES", few)
    grown = run_config(LINKS, graph=starred, device=GPU)
    assert batch_of(grown) == (512, 1e-4, 2e-3, usual.train.node_lr)
    for recipe, device in [("default", None), *((paper, GPU) for paper in PAPER_RECIPES)]:
        config = run_config(LINKS, recipe, graph=starred, device=device)
        assert batch_of(config) == batch_of(run_config(LINKS, recipe))


def test_a_chosen_batch_size_keeps_its_rates_and_a_chosen_rate_its_value(starred, monkeypatch):
    few = dict.fromkeys(loader.GPU_MIN_UPDATES, 0.05)
    monkeypatch.setattr(loader, "GPU_MIN_UPDATES", few)
    config = run_config(LINKS, settings={"train.batch_size": 128}, graph=starred, device=GPU)
    assert batch_of(config)[:2] == (128, 5e-5)
    config = run_config(LINKS, settings={"train.lr": 3e-5}, graph=starred, device=GPU)
    assert batch_of(config)[:3] == (512, 3e-5, 2e-3)


def test_default_predicts_nodes_of_large_networks_from_labels(simulated, monkeypatch):
    assert size_settings(EDGES, 99_999) == {}
    assert size_settings(EDGES, 100_000)["model.node_prior"]
    assert not run_config(EDGES, graph=simulated).model.node_prior  # a small network
    monkeypatch.setattr("edgeformers.training.data_settings.PRIOR_EDGES", 100)
    config = run_config(EDGES, graph=simulated)
    assert config.model.node_prior
    assert config.train.node_lr < make_config(EDGES).train.node_lr
    assert EdgeClassifier("scratch:2x32", show=False).make_objective(simulated).summaries
    given = run_config(EDGES, graph=simulated, settings={"model.node_prior": False})
    assert not given.model.node_prior
    assert given.train.node_lr == make_config(EDGES).train.node_lr
    other = run_config(EDGES, graph=simulated, settings={"model.name": "bert-nodes"})
    assert not other.model.node_prior
    assert other.train.node_lr == make_config(EDGES).train.node_lr
    for recipe in ("paper", "paper-tuned", "fast"):
        assert not run_config(EDGES, recipe, graph=simulated).model.node_prior
    assert not run_config(LINKS, graph=simulated).model.node_prior


def test_default_shrinks_node_vectors_by_the_number_of_training_links(simulated, monkeypatch):
    assert size_settings(LINKS, 60_000) == {}
    added = [size_settings(LINKS, n)["model.node_shrinkage"] for n in (61_000, 130_000, 500_000)]
    assert 0 < added[0] < added[1] < added[2]
    assert run_config(LINKS, graph=simulated).model.node_shrinkage == 0  # a small network
    assert size_settings(LINKS, 500_000)["train.epochs"] < make_config(LINKS).train.epochs
    monkeypatch.setattr("edgeformers.training.data_settings.SMALL_NETWORK", 100)
    monkeypatch.setattr("edgeformers.training.data_settings.LARGE_NETWORK", 10_000)
    links = int((simulated.split("link") == TRAIN).sum())
    expected = size_settings(LINKS, links)["model.node_shrinkage"]
    assert run_config(LINKS, graph=simulated).model.node_shrinkage == expected > 0
    objective = LinkPredictor("scratch:2x32", show=False).make_objective(simulated)
    assert objective.model.nodes.node_shrinkage == expected
    assert objective.model.nodes.keep[0] < 1
    given = run_config(LINKS, graph=simulated, settings={"model.node_shrinkage": 7.0})
    assert given.model.node_shrinkage == 7.0
    others = [(LINKS, recipe) for recipe in ("paper", "paper-tuned", "fast")]
    for task, recipe in [*others, ("edge-classification", "default")]:
        assert run_config(task, recipe, graph=simulated).model.node_shrinkage == 0


def test_only_labeled_edges_count_as_examples_of_edge_classification(make_network):
    rows = [
        {"source": f"s{i % 7}", "target": f"t{i % 9}", "text": "x", "label": "ab"[i % 2]}
        for i in range(60)
    ]
    for row in rows[::3]:
        row["label"] = None
    graph = make_network(rows)
    config = make_config(EDGES)
    known = graph.labels >= 0
    assert num_training_edges(config, graph) == ((graph.split("edge") == TRAIN) & known).sum()
