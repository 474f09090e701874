import pytest

from edgeformers.baselines.registry import EDGE_BASELINES, LINK_BASELINES
from edgeformers.experiments.run_report.input_kinds import NODES, TEXT, input_kind, popularity_note
from edgeformers.registry import MODELS


def test_models_with_a_single_input_exist():
    assert {*MODELS, *EDGE_BASELINES, *LINK_BASELINES} >= TEXT | NODES
    assert not TEXT & NODES


@pytest.mark.parametrize(
    ("model", "settings", "expected"),
    [
        ("tfidf", {}, "text"),
        ("bert", {}, "text"),
        ("popularity", {}, "nodes"),
        ("tfidf-nodes", {}, "both"),
        ("edgeformer-e", {"model.tokens": "none"}, "both"),
        ("edgeformer-e", {"model.tokens": ["source"]}, "both"),
        ("edgeformer-e", {"model.tokens": []}, "text"),
        ("edgeformer-n", {"model.tokens": []}, "both"),
        ("bert-n", {"links.collaborative": False}, "text"),
        ("bert-n", {"links.collaborative": True}, "both"),
        ("bert-n", {"links.ensemble": True}, "both"),
        ("graphformers-n", {}, "text"),  # it reads what `bert-n` reads
        ("made-elsewhere", {}, ""),
    ],
)
def test_inputs_depend_on_the_model_and_its_settings(model, settings, expected):
    assert input_kind(model, settings) == expected


def test_a_learned_popularity_is_noted():
    assert "popular" in popularity_note("bert-n", {"links.popularity_bias": True})
    assert popularity_note("bert-n", {}) == ""
    assert popularity_note("edgeformer-n", {"links.popularity_bias": True}) == ""
