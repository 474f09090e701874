import math

import numpy as np
import pytest

from edgeformers.errors import InputError
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.experiments.model_figures import (
    SHOWN_TOKENS,
    attention_map,
    measure_attention,
    measure_embeddings,
    node_map,
    project_2d,
    similarity_measurements,
)
from tests.experiments.conftest import TINY


@pytest.fixture(scope="module")
def classifier(simulated):
    return EdgeClassifier(recipe="fast", settings=TINY, show=False).fit(simulated)


def test_the_map_of_a_text_token_shows_twenty_tokens_after_the_virtual_ones(classifier):
    network = classifier.fitted_.network
    edges = network.parts["test"]
    edge = int(edges[np.argmax(network.loader.lengths(edges))])
    full = attention_map(classifier, edge, "of {token}")
    some = attention_map(classifier, edge, "of {token}", token="text")
    assert full.title == "of [CLS]"
    assert some.title.removeprefix("of ") in some.tokens[2:]
    assert not some.title.removeprefix("of ").startswith("[")
    assert some.tokens == full.tokens[: 2 + SHOWN_TOKENS]
    assert some == attention_map(classifier, edge, "of {token}", token="text")
    assert some.weights != [layer[: len(some.tokens)] for layer in full.weights]
    assert [sum(layer) for layer in full.weights] == pytest.approx([1.0] * len(full.weights))


@pytest.mark.parametrize("token", ["text", "cls"])
def test_attention_is_averaged_per_token(classifier, token):
    network = classifier.fitted_.network
    edges = network.parts["test"][:30]
    found = {one.name: one for one in measure_attention(classifier, edges, token=token)}
    gap = found["virtual-minus-text"]
    assert gap.low <= gap.value <= gap.high
    assert gap.examples == len(edges)
    assert found["virtual/layer 0"].value == 0.0
    assert gap.value == pytest.approx(found["virtual/layer 1"].value - found["text/layer 1"].value)
    lengths = network.loader.lengths(edges)
    assert found["text/layer 0"].value == pytest.approx(np.mean(1 / np.asarray(lengths)), rel=1e-4)


def test_embeddings_of_a_model_that_samples_positive_and_negative_edges(simulated):
    strata = {"data.strata": "positive", "data.source_neighbors": [1, 1]}
    settings = {**TINY, **strata, "data.target_neighbors": [1, 1], "links.ensemble": False}
    predictor = LinkPredictor(recipe="fast", settings=settings, show=False).fit(simulated)
    nodes = np.arange(simulated.num_sources, simulated.num_nodes)[:4]
    drawn = node_map(predictor, nodes, simulated.node_names(nodes), "")
    assert set(drawn.ends) == set(range(len(nodes)))
    assert len(drawn.edges) == len(drawn.ends) > 2 * len(nodes)  # all edges, not a sample of two
    assert measure_embeddings(predictor, nodes)[0].examples == len(nodes)


def test_similarities_agree_with_all_pairs():
    random = np.random.default_rng(0)
    sizes = np.array([3, 1, 2, 4])
    unit = [
        v / np.linalg.norm(v, axis=1, keepdims=True)
        for v in (random.normal(size=(n, 5)) for n in sizes)
    ]
    centers = np.stack([v.mean(0) / np.linalg.norm(v.mean(0)) for v in unit])
    found = {
        one.name: one
        for one in similarity_measurements(centers, np.stack([v.sum(0) for v in unit]), sizes)
    }
    pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
    nodes = np.mean([centers[i] @ centers[j] for i, j in pairs])
    other = np.mean([(unit[i] @ unit[j].T).mean() for i, j in pairs])
    own = np.mean([(v @ v.T)[~np.eye(len(v), dtype=bool)].mean() for v in unit if len(v) > 1])
    assert found["nodes-minus-edges"].value == pytest.approx(nodes - other)
    assert found["same-node-minus-other"].value == pytest.approx(own - other)


def test_tsne_separates_clusters_and_is_deterministic():
    random = np.random.default_rng(0)
    group = np.arange(40) % 2
    vectors = random.normal(size=(40, 5)) + 20.0 * group[:, None]
    found = project_2d(vectors, seed=3)
    centers = np.stack([found[group == g].mean(0) for g in (0, 1)])
    nearest = np.linalg.norm(found[:, None] - centers, axis=2).argmin(1)
    np.testing.assert_array_equal(nearest, group)
    np.testing.assert_array_equal(found, project_2d(vectors, seed=3))


@pytest.mark.parametrize("shape", [(0, 4), (1, 4), (3, 1), (5, 5)])
def test_few_vectors_can_be_projected(shape):
    found = project_2d(np.arange(np.prod(shape), dtype=float).reshape(shape))
    assert found.shape == (shape[0], 2)
    assert np.isfinite(found).all()


def test_vectors_must_be_finite():
    with pytest.raises(InputError, match="finite"):
        project_2d([[0.0, math.nan], [1.0, 2.0]])
