"""Results of a few runs on films."""

from edgeformers.report.results import AttentionMap, LearningCurve, NodeMap, Results
from edgeformers.report.scores import MetricValue, ModelScores, TaskScores


def make_model(name, sees, value, half=0.01, metric="macro_f1"):
    score = MetricValue(value=value, low=value - half, high=value + half)
    return ModelScores(model=name, inputs=sees, metrics={metric: score, "micro_f1": score})


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
    """Everything a page can show, once."""
    return Results(
        title="films",
        origin="reviews.csv",
        tasks=[make_task(best={"macro_f1": 0.61}, note="split edge")],
        curves=[LearningCurve(run="run 1", metric="macro_f1", points=[[1, 0.3], [2, 0.5]])],
        attention=[
            AttentionMap(
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
