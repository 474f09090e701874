"""Results of runs on films, and a comparison of runs, as data."""

from edgeformers.data.card.describe import describe
from edgeformers.report.comparison import (
    DegreeScores,
    ModelCost,
    ModelCurves,
    ModelRuns,
    RunComparison,
    RunGroup,
    SkippedRun,
)
from edgeformers.report.figures import AttentionFigure, NodeMap
from edgeformers.report.page import SvgImage
from edgeformers.report.results import LearningCurve, Results
from edgeformers.report.scores import MetricValue, ModelScores, TaskScores
from edgeformers.report.verdict import Answer, Verdict
from tests.report.films import make_graph

SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="640" height="80"><title>What is read</title>'
    '<script>fetch("http://example.org")</script>'
    '<image href="http://example.org/logo.png"/></svg>'
)


def model(name, inputs, value, metric="macro_f1", runs=1, **more):
    spread = 0.01 if runs > 1 else None
    score = MetricValue(value=value, low=value - 0.02, high=value + 0.02, spread=spread)
    return ModelScores(model=name, inputs=inputs, metrics={metric: score}, runs=runs, **more)


def make_verdict(graph="helps", text="no"):
    """Answers to two questions, with the gains behind them."""
    gains = {"helps": 0.13, "unclear": 0.01, "no": 0.0, "hurts": -0.13}
    alternatives = {"graph": "nodes hidden", "text": "texts hidden"}
    answers = [
        Answer(
            question=question,
            finding=finding,
            alternative=alternatives[question],
            gain=gains[finding],
            low=gains[finding] - 0.03,
            high=gains[finding] + 0.03,
            p_value=0.01 if finding in ("helps", "hurts") else 0.4,
            gains={alternatives[question]: gains[finding]},
        )
        for question, finding in (("graph", graph), ("text", text))
    ]
    return Verdict(
        task="edge-classification",
        model="Edgeformer-E",
        metric="macro_f1",
        examples=600,
        sources=40,
        answers=answers,
    )


def edges(**more):
    """Models that use the text, the nodes, and both."""
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
            TaskScores(
                task="Edge classification",
                metrics=["macro_f1"],
                models=models,
                gains=gains,
                verdict=make_verdict(),
            )
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
            ModelRuns(
                model=name,
                runs={f"runs/{name}": "seed 0, 2 s on cpu"},
                settings={"train.lr": lr, "recipe": "fast"},
            )
            for name, lr in (("TF-IDF", 0.1), ("node ids", 0.1), ("Edgeformer-E", 0.2))
        ],
    }
    return RunGroup(**{**values, **more})


def links():
    """Two protocols with a single model, and scores by degree."""
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
        settings=[ModelRuns(model="Edgeformer-N", runs={"runs/n": ""}, settings={})],
    )


def make_comparison(**more):
    """Everything the comparison page can show, once."""
    values = {
        "title": "films",
        "groups": [edges(), links()],
        "figures": [SvgImage("attention-map", SVG, alt="What is read")],
        "cards": {"films": describe(make_graph())},
        "skipped": [SkippedRun(folder="runs/half", reason="it is not finished")],
        "notes": ["empty has no finished run."],
    }
    return RunComparison(**{**values, **more})


def make_model(name, inputs, value, half=0.01, metric="macro_f1"):
    score = MetricValue(value=value, low=value - half, high=value + half)
    return ModelScores(model=name, inputs=inputs, metrics={metric: score, "micro_f1": score})


def make_task(text=0.43, nodes=0.41, both=0.54, **more):
    models = [
        make_model("TF-IDF", "text", 0.33),
        make_model("words", "text", text),
        make_model("ids", "nodes", nodes),
        make_model("Edgeformer-E", "both", both),
    ]
    given = {"task": "Stars", "metrics": ["macro_f1", "micro_f1"], "models": models, **more}
    return TaskScores(**given)


def make_results():
    """Everything the results page can show, once."""
    return Results(
        title="films",
        origin="reviews.csv",
        tasks=[make_task(best={"macro_f1": 0.61}, note="split edge", verdict=make_verdict())],
        curves=[LearningCurve(run="run 1", metric="macro_f1", points=[[1, 0.3], [2, 0.5]])],
        attention=[
            AttentionFigure(
                title="one review",
                tokens=["[v_i]", "good", "film"],
                weights=[[0.0, 0.75, 0.25], [0.5, 0.25, 0.25]],
                virtual=1,
            )
        ],
        maps=[
            NodeMap(
                title="map",
                names=["alien", "brazil"],
                nodes=[[0, 0], [1, 1]],
                edges=[[0, 0.1], [0.9, 1], [1, 0.8]],
                ends=[0, 1, 1],
            )
        ],
        data={"edges": 1200, "tokenizer": "minilm"},
        settings={"run 1": {"lr": 5e-5, "seed": 1}, "run 2": {"lr": 1e-3, "seed": 1}},
    )
