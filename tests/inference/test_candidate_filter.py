"""CandidateFilter: the same targets as ranking everything and dropping the others."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edgeformers.inference.index as index_module
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.errors import InputError
from edgeformers.inference.batch_inference import recommend_all
from edgeformers.inference.candidate_filter import CandidateFilter
from edgeformers.inference.index import LinkIndex
from tests.inference.test_link_scorer import old_link_run


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A model, and the same with an index that searches."""
    folder = tmp_path_factory.mktemp("filtered")
    plain = old_link_run(folder, "link-run", "reviews")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_module, "SMALL", 0)
        LinkIndex.build(plain, folder / "index", show=False)
    return plain, replace(plain, index_folder=folder / "index")


def targets(model):
    return model.nodes.ids_of(model.scorer.candidates)


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_a_filter_drops_the_others_and_k_results_remain(data, models):
    names = targets(models[0])
    some = st.lists(st.sampled_from(names), max_size=len(names))
    allow, deny = data.draw(st.none() | some), data.draw(some)
    k, source = data.draw(st.integers(1, 8)), data.draw(st.integers(0, 4))
    (node,) = models[0].nodes.ids_of([source])
    seen = data.draw(st.booleans())
    everything = models[0].recommend(node, len(names), exclude_seen=seen)
    passing = [
        one.score
        for one in everything
        if (allow is None or one.node in allow) and one.node not in deny
    ]
    chosen = CandidateFilter(allow=allow, deny=deny)
    for model in models:
        found = model.recommend(node, k, exclude_seen=seen, candidates=chosen)
        assert all(allow is None or one.node in allow for one in found)
        assert not {one.node for one in found} & {*deny}
        np.testing.assert_allclose([one.score for one in found], passing[:k], rtol=1e-3, atol=1e-3)


def test_recommendations_to_all_sources_pass_the_filter(models):
    plain, _ = models
    names = targets(plain)[:3]
    chosen = CandidateFilter(allow=names)
    for table in recommend_all(plain, 5, candidates=chosen, show=False):
        assert {*table.column("target").to_pylist()} <= {*names}
    assert len(table)


def test_an_unknown_id_is_named(models):
    with pytest.raises(InputError, match="'nobody'"):
        models[0].recommend(
            *models[0].nodes.ids_of([0]), candidates=CandidateFilter(deny=["nobody"])
        )
    with pytest.raises(InputError, match="must be a list"):
        CandidateFilter(allow="item")


def test_labels_are_those_of_the_network(simulated):
    graph = simulated if isinstance(simulated, EdgeTextGraph) else simulated[0]
    candidates = np.arange(graph.num_sources, graph.num_nodes + 1)  # the last one arrived later
    label = graph.node_label_names[0]
    offsets, codes = graph.node_labels
    mask = CandidateFilter(labels=[label]).mask(candidates, graph.node_index, graph)
    expected = [0 in codes[offsets[node] : offsets[node + 1]] for node in candidates[:-1]]
    assert mask.tolist() == [*expected, False]
    assert any(expected)
    with pytest.raises(InputError, match="no node label 'unheard'"):
        CandidateFilter(labels=["unheard"]).mask(candidates, graph.node_index, graph)


@pytest.mark.parametrize("side", ["source", "target"])
def test_similar_nodes_have_the_highest_cosine(models, side):
    plain, indexed = models
    graph = plain.network.graph
    numbers = np.arange(graph.num_sources)
    if side == "target":
        numbers = plain.scorer.candidates
    vectors = replace(plain).embed_nodes(numbers, side=side)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = unit[1:] @ unit[0]
    best = np.sort(cosines)[::-1][:3]
    (name,) = plain.nodes.ids_of(numbers[:1])
    for model in (replace(plain), indexed):
        found = model.similar(name, 3, side=side)
        assert name not in [one.node for one in found]
        np.testing.assert_allclose([one.score for one in found], best, rtol=1e-3, atol=1e-3)
        places = model.nodes.known_numbers([one.node for one in found], side) - numbers[0] - 1
        np.testing.assert_allclose(cosines[places], best, rtol=1e-3, atol=1e-3)
