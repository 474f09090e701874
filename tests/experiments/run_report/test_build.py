import json

import pytest

from edgeformers.data.network import PrepareConfig
from edgeformers.data.prepare import prepare_simulated
from edgeformers.errors import InputError
from edgeformers.experiments.run_report import build_report, write_report
from edgeformers.inference.fitted import network_fingerprint
from tests.experiments.run_report.folders import edge_results, link_results, simple, trained, write

EDGES, LINKS = "edge-classification", "link-prediction"
SVG = '<svg xmlns="http://www.w3.org/2000/svg"><title>{}</title></svg>'


def test_tasks_networks_and_splits_are_compared_separately(tmp_path):
    trained(tmp_path / "a", EDGES, edge_results(0.5))
    trained(tmp_path / "b", LINKS, link_results(0.2))
    page = build_report([tmp_path])
    assert [group.title for group in page.groups] == ["Edge classification", "Link prediction"]
    assert page.title == "films"
    trained(tmp_path / "c", EDGES, edge_results(0.5), data__split="by-time")
    trained(tmp_path / "d", EDGES, edge_results(0.5), network="0" * 64)
    page = build_report([tmp_path])
    assert [group.title for group in page.groups] == [
        "Edge classification on films (000000)",
        "Edge classification on films (ffffff), split default",
        "Edge classification on films (ffffff), split by-time",
        "Link prediction on films (ffffff)",
    ]
    assert page.title == "2 networks"
    assert page.num_runs == 4


def test_folders_without_finished_runs_are_noted(tmp_path):
    trained(tmp_path / "done", EDGES, edge_results(0.5))
    half = trained(tmp_path / "half", EDGES, val=(0.1,))
    (tmp_path / "empty").mkdir()
    page = build_report([tmp_path / name for name in ("done", "half", "empty")])
    assert f"{tmp_path / 'empty'} has no finished run." in page.notes
    assert f"{half} has no finished run." in page.notes
    assert [one.folder for one in page.skipped] == [str(half)]


def test_tuning_trials_are_counted_but_not_shown(tmp_path):
    trained(tmp_path / "runs/bert-tuned/0", EDGES, edge_results(0.5))
    for number in range(3):
        folder = trained(tmp_path / f"trials/bert/{number}", EDGES, val=(0.1,))
        write(folder / "results.json", {"val": {"select": "macro_f1", "score": 0.1}})
    half = trained(tmp_path / "trials/bert/3", EDGES, val=(0.1,))
    page = build_report([tmp_path])
    assert (page.num_runs, [one.folder for one in page.skipped]) == (1, [str(half)])
    assert any("3 tuning trials" in note for note in page.notes)
    with pytest.raises(InputError, match=r"no finished run in .*/0, only 1 tuning trial"):
        build_report([tmp_path / "trials/bert/0"])


def test_no_page_is_written_without_finished_runs(tmp_path):
    half = trained(tmp_path / "half", EDGES, val=(0.1,))
    with pytest.raises(InputError, match=rf"no finished run in {tmp_path}; {half}: .*1 of 3"):
        write_report([tmp_path], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_a_missing_network_is_noted(tmp_path):
    trained(tmp_path / "a", EDGES, edge_results(0.5))
    page = build_report([tmp_path])
    assert page.cards == {}
    assert "No data card: films" in page.notes[0]


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A prepared network without a card beside it."""
    path = tmp_path_factory.mktemp("net") / "films"
    return prepare_simulated(
        path, num_edges=60, config=PrepareConfig(tokenizer=None, progress=False)
    )


def test_a_missing_card_is_computed_unless_the_network_changed(tmp_path, network):
    fingerprint = network_fingerprint(network)
    folder = trained(tmp_path / "a", EDGES, edge_results(0.5), network=fingerprint)
    record = json.loads((folder / "run.json").read_text())
    write(folder / "run.json", {**record, "network": str(network.path)})
    page = build_report([tmp_path])
    (card,) = page.cards.values()
    assert (card.counts.edges, page.notes) == (60, [])
    write(folder / "run.json", {**record, "network": str(network.path), "network_fingerprint": "x"})
    page = build_report([tmp_path])
    assert page.cards == {}
    assert "changed" in page.notes[0]


def test_plans_locate_the_network_of_simple_baselines(tmp_path, network):
    fingerprint = network_fingerprint(network)
    simple(tmp_path / "runs/tfidf/0", EDGES, "tfidf", edge_results(0.5), network=fingerprint)
    plan = {"fingerprint": fingerprint, "network": str(network.path), "about": {"name": "films"}}
    write(tmp_path / "edges/plan.json", plan)
    write(tmp_path / "other/plan.json", [])
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/plan.json").write_text("{")
    page = build_report([tmp_path])
    assert list(page.cards) == [page.title]


def test_figures_of_experiments_are_included_once_with_their_titles(tmp_path):
    trained(tmp_path / "runs/a", EDGES, edge_results(0.5))
    for experiment in ("attention-map", "again"):
        write(tmp_path / experiment / "plan.json", {})
        (tmp_path / experiment / "map.svg").write_text(SVG.format("What is &amp; was read"))
    (tmp_path / "attention-map" / "bare.svg").write_text("<svg/>")
    (tmp_path / "attention-map" / "huge.svg").write_text("<svg>" + " " * 2_000_000 + "</svg>")
    (tmp_path / "logo.svg").write_text(SVG.format("no experiment"))
    found = build_report([tmp_path]).figures
    assert sorted(drawing.alt for drawing in found) == ["What is & was read", "bare"]
