"""Text similarity by hand, and two baselines blended."""

import numpy as np
import pytest

from edgeformers.baselines.collaborative.blend import Blend
from edgeformers.baselines.collaborative.ease import EASE
from edgeformers.baselines.collaborative.popularity import Popularity
from edgeformers.baselines.text.frozen_vectors import text_vectors
from edgeformers.baselines.text.similarity import TextSimilarity, mean_text_vectors
from tests.baselines.tiny import write_backbone

WORDS = {"sea": "waves wind sail harbor", "wood": "oak moss fern beetle"}


@pytest.fixture
def places(make_parts):
    """Sources write of the sea or of the wood, and of both when they are wrong."""
    part = ["train", "train", "train", "val", "test"]
    rows = [
        {
            "source": f"u{n % 10}",
            "target": f"i{2 * (n // 2 % 3) + n % 2}",
            "text": WORDS["sea" if n % 2 else "wood"],
            "label": "yes",
            "split": part[n // 10 % 5],
        }
        for n in range(100)
    ]
    wrong = {"source": "u0", "target": "i1", "text": WORDS["sea"], "label": "no", "split": "train"}
    return make_parts([*rows, wrong], positive=["yes"])


@pytest.fixture
def backbone(places, tmp_path):
    return write_backbone(tmp_path / "backbone", places)


@pytest.mark.parametrize("centered", [True, False])
def test_a_profile_is_the_mean_of_the_positive_training_texts(places, backbone, centered):
    vectors = text_vectors(places, backbone)
    chosen = np.flatnonzero((places.split("given") == 0) & places.is_positive)
    texts = {edge: vectors[edge].astype(np.float64) for edge in chosen.tolist()}
    middle = np.mean(list(texts.values()), axis=0) if centered else 0.0
    profiles = mean_text_vectors(places, "given", vectors, centered=centered)
    for node in (0, 3, 12):
        own = [text for e, text in texts.items() if node in (places.src[e], places.dst[e])]
        mean = np.mean(own, axis=0) - middle
        np.testing.assert_allclose(profiles[node], mean / np.linalg.norm(mean), atol=2e-3)


def test_nodes_with_similar_texts_are_recommended(places, backbone):
    model = TextSimilarity(backbone).fit(places, "given")
    queries, candidates = np.arange(10), np.arange(10, places.num_nodes)
    names = [places.node_names(nodes) for nodes in (queries, candidates)]
    alike = np.array([[(int(q[1:]) - int(c[1:])) % 2 == 0 for c in names[1]] for q in names[0]])
    scores = model.scores(queries, candidates)
    assert scores[alike].min() > scores[~alike].max()
    assert model.setting == {"backbone": backbone, "max_tokens": 64, "centered": True}


def test_a_blend_scales_and_weights_two_scores(places, backbone):
    first, second = EASE(), TextSimilarity(backbone)
    queries, candidates = np.arange(10), np.arange(10, places.num_nodes)
    model = Blend(first, second, grid=[(0.75, 0.25)]).fit(places, "given")
    a, b = (one.scores(queries, candidates) for one in (first, second))
    expected = 0.75 * a / a.std() + 0.25 * b / b.std()
    np.testing.assert_allclose(model.scores(queries, candidates), expected, rtol=1e-4)
    chosen = {"EASE": first.setting, "TextSimilarity": second.setting}
    assert model.setting == {**chosen, "weights": (0.75, 0.25)}


def test_a_useless_second_baseline_gets_weight_0_on_validation(places, backbone):
    first = TextSimilarity(backbone)
    model = Blend(first, Popularity(), grid=[(0.0, 1.0), (1.0, 0.0)]).fit(places, "given")
    assert model.setting["weights"] == (1.0, 0.0)
    assert model.trials[0].score < model.trials[1].score


def test_three_baselines_are_weighed_on_validation(places):
    model = Blend(Popularity(), EASE(), EASE(lambdas=(1.0,))).fit(places, "given")
    scores = {trial.setting: trial.score for trial in model.trials}
    assert len(scores) == 19  # weights 0, 1 and 2, without multiples of each other
    assert scores[model.fitted] == max(scores.values())
    assert scores[(0.0, 1.0, 0.0)] <= scores[model.fitted]
