"""Finished runs of two tasks on films, as data."""

from edgeformers.data.card.describe import describe
from edgeformers.report.runs_data import (
    DegreeScores,
    Drawing,
    ModelCost,
    ModelCurves,
    ModelSettings,
    OneRun,
    RunComparison,
    RunGroup,
    Unfinished,
)
from edgeformers.report.scores import MetricValue, ModelScores, TaskScores
from tests.report.films import make_graph

SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="640" height="80"><title>What is read</title>'
    '<script>fetch("http://example.org")</script>'
    '<image href="http://example.org/logo.png"/></svg>'
)


def model(name, sees, value, metric="macro_f1", runs=1, **more):
    spread = 0.01 if runs > 1 else None
    score = MetricValue(value=value, low=value - 0.02, high=value + 0.02, spread=spread)
    return ModelScores(model=name, inputs=sees, metrics={metric: score}, runs=runs, **more)


def edges(**more):
    """Three models that see the text, the nodes, both."""
    models = [
        model("TF-IDF", "text", 0.41),
        model("node ids", "nodes", 0.33),
        model("Edgeformer-E", "both", 0.54, runs=3),
    ]
    gains = {"text": MetricValue(value=0.13, low=0.1, high=0.16)}
    values = {
        "title": "Edge classification",
        "network": "films",
        "task": "edge-classification",
        "scores": [
            TaskScores(task="Edge classification", metrics=["macro_f1"], models=models, gains=gains)
        ],
        "examples": 600,
        "curves": [
            ModelCurves(
                model="Edgeformer-E",
                by_epoch=[[(1.0, 0.4), (2.0, 0.5)], [(1.0, 0.42), (2.0, 0.49)]],
                by_seconds=[[(300.0, 0.4), (600.0, 0.5)]],
            )
        ],
        "costs": [
            ModelCost(model="TF-IDF", inputs="text", seconds=2.0, device="cpu", value=0.41),
            ModelCost(model="node ids", inputs="nodes", seconds=4.0, device="cpu", value=0.33),
            ModelCost(model="Edgeformer-E", inputs="both", seconds=900, device="H200", value=0.54),
        ],
        "settings": [
            ModelSettings(
                model=name,
                runs=[OneRun(folder=f"runs/{name}", seed="0", seconds=2.0, device="cpu")],
                settings={"train.lr": lr, "recipe": "fast"},
            )
            for name, lr in (("TF-IDF", 0.1), ("node ids", 0.1), ("Edgeformer-E", 0.2))
        ],
    }
    return RunGroup(**{**values, **more})


def links():
    """A task of two protocols with nothing to compare, and groups of pairs."""
    tasks = [
        TaskScores(
            task=f"Link prediction, protocol {protocol}",
            metrics=[f"{protocol}/mrr"],
            models=[model("Edgeformer-N", "both", 0.2, metric=f"{protocol}/mrr", note="it rests")],
            note="ranked somehow",
        )
        for protocol in ("full", "paper")
    ]
    return RunGroup(
        title="Link prediction",
        network="films",
        task="link-prediction",
        scores=tasks,
        degrees=DegreeScores(
            metric="full/mrr",
            groups={"cold": 3, "11 or more": 1200},
            models={"Edgeformer-N": [0.1, 0.25]},
        ),
        settings=[ModelSettings(model="Edgeformer-N", runs=[OneRun(folder="runs/n")], settings={})],
    )


def make_runs(**more):
    """Everything a page of runs can show, once."""
    values = {
        "title": "films",
        "groups": [edges(), links()],
        "drawings": [Drawing(title="What is read", experiment="attention-map", svg=SVG)],
        "cards": {"films": describe(make_graph())},
        "unfinished": [Unfinished(folder="runs/half", sentence="it is not finished")],
        "notes": ["empty has no finished run."],
    }
    return RunComparison(**{**values, **more})
