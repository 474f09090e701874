import pytest

from edgeformers.experiments.run_report.input_kinds import NODES, TEXT, input_kind, popularity_note
from edgeformers.registry import EDGE_BASELINES, LINK_BASELINES, MODELS


def test_models_that_are_said_to_see_one_thing_exist():
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
def test_what_a_model_sees_depends_on_its_settings(model, settings, expected):
    assert input_kind(model, settings) == expected


def test_a_popularity_that_is_learned_beside_the_text_is_said():
    assert "popular" in popularity_note("bert-n", {"links.popularity_bias": True})
    assert popularity_note("bert-n", {}) == ""
    assert popularity_note("edgeformer-n", {"links.popularity_bias": True}) == ""
