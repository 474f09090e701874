"""Calibration and the quality of recommendations on the page of finished runs."""

import pytest

from edgeformers.experiments.run_report import build_report
from edgeformers.report.comparison import comparison_page
from edgeformers.report.page import render_html
from edgeformers.report.scores import lower_is_better
from tests.experiments.run_report.folders import edge_results, link_results, trained

EDGES, LINKS = "edge-classification", "link-prediction"


def curve(accuracy, **more):
    bins = {"confidence": [0.3, 0.6, 0.9], "accuracy": accuracy, "count": [4, 60, 200]}
    return {"calibration": bins | more, "ece": 0.1}


def test_edges_have_a_reliability_diagram_with_error_and_temperature(tmp_path):
    for seed, heat in enumerate((1.0, 1.5)):
        results = edge_results(0.5) | curve([0.1, 0.5, 0.8], temperature=heat)
        trained(tmp_path / str(seed), EDGES, results, seed=seed)
    trained(tmp_path / "old", EDGES, edge_results(0.4), model__node_width=8)
    page = build_report([tmp_path])
    [found] = page.groups[0].calibration
    assert found.lines == [[(0.6, 0.5), (0.9, 0.8)]] * 2  # four edges are too few to draw
    assert (found.error, found.temperature) == (pytest.approx(0.1), 1.25)
    html = render_html(comparison_page(page))
    assert "Reliability" in html
    assert "probability 90%, correct 80%" in html
    assert "1.25" in html


def test_a_temperature_that_was_not_recorded_is_unknown(tmp_path):
    trained(tmp_path / "run", EDGES, edge_results(0.5) | curve([0.1, 0.5, 0.8]))
    [found] = build_report([tmp_path]).groups[0].calibration
    assert found.temperature is None


def test_links_have_the_quality_of_their_recommendations(tmp_path):
    for seed, coverage in enumerate((0.2, 0.4)):
        quality = {"coverage": coverage, "novelty": 5.0, "popularity_lift": 0.5, "diversity": 0.7}
        trained(
            tmp_path / str(seed), LINKS, link_results(0.2) | {"recommendations": quality}, seed=seed
        )
    page = build_report([tmp_path])
    [found] = page.groups[0].recommendations
    assert found.metrics["coverage"] == pytest.approx(0.3)
    html = render_html(comparison_page(page))
    assert "30%" in html
    assert "+50%" in html
    assert "popularity lift" in html


def test_pages_without_either_have_no_such_sections(tmp_path):
    trained(tmp_path / "run", LINKS, link_results(0.2))
    html = render_html(comparison_page(build_report([tmp_path])))
    assert "Calibration" not in html
    assert "coverage" not in html


def test_a_lower_calibration_error_is_better():
    assert lower_is_better("ece")
