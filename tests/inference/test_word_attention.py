"""Attention to words: it sums to one, has places in the original text, and is read in context."""

import numpy as np
import pytest
import torch

from edgeformers.errors import InputError
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.inference.word_attention import _attended
from edgeformers.models.edgeformer_n import EdgeformerN


def untrained(kind, graph, **settings):
    settings = {"model.node_width": 8, "data.max_tokens": 12, **settings}
    estimator = kind("scratch:2x32", settings=settings, show=False, device="cpu")
    fitted = estimator.make_objective(graph).fitted
    fitted.model.eval()
    return fitted


@pytest.fixture(scope="module")
def links(simulated):
    return untrained(LinkPredictor, simulated)


def assert_attended(found):
    for one in found:
        total = sum(word.weight for word in one.words) + sum(one.elsewhere.values())
        assert total == pytest.approx(1.0, abs=1e-5)
        assert [word.start for word in one.words] == sorted(word.start for word in one.words)
        for word in one.words:
            part = one.text[word.start : word.end]
            assert part
            assert part == part.strip()
            assert " " not in part


def test_subwords_and_special_tokens_are_merged_into_words(bert_tokenizer):
    text = "  Goodly  books, bad film!"
    encoding = bert_tokenizer.encode(text)  # [CLS] good ##ly book ##s [UNK] bad film ! [SEP]
    weights = torch.arange(1.0, len(encoding.ids) + 3)
    found = _attended(text, "u", encoding, weights, ("source", "target"))
    words = {text[word.start : word.end]: word.weight for word in found.words}
    assert words == {"Goodly": 4 + 5, "books": 6 + 7, ",": 8, "bad": 9, "film": 10, "!": 11}
    assert found.elsewhere == {"source": 1.0, "target": 2.0, "special": 3.0 + 12.0}
    assert found.node == "u"


def test_words_of_a_byte_level_tokenizer_start_after_the_space(roberta_tokenizer):
    text = "a bad film"
    encoding = roberta_tokenizer.encode(text)
    found = _attended(text, "", encoding, torch.ones(len(encoding.ids)), ())
    words = [text[word.start : word.end] for word in found.words]
    assert words == ["a", "bad", "film"]


def test_the_texts_of_a_node_are_those_it_is_encoded_from(links, simulated):
    for side, number in (("source", 3), ("target", simulated.num_sources + 2)):
        (name,) = simulated.node_names([number])
        found = links.word_attention(name, side=side)
        batch = links.network.loader.nodes(np.array([number]), side=side)
        assert [one.node for one in found] == simulated.node_names(batch.neighbor.numpy())
        assert_attended(found)
        assert set(found[0].elsewhere) == {"center", "neighbor", "local", "special"}
    assert max(len(one.words) for one in found) <= 10  # of 12 tokens


def test_later_and_new_texts_are_attended_to(links, simulated):
    source, target = simulated.node_names([3, simulated.num_sources + 2])
    edges = [(target, "a fine tent"), ("unknown", ""), (target, "never again")]
    found = links.word_attention(edges=edges)
    assert [(one.node, one.text) for one in found] == edges
    assert_attended(found)
    fresh = untrained(LinkPredictor, simulated)
    fresh.update([(source, target, "a later text")])
    assert fresh.word_attention(source)[0].text == "a later text"
    assert fresh.word_attention(target, side="target")[0].node == source
    with pytest.raises(InputError, match="either"):
        links.word_attention()


def test_other_edges_of_a_node_change_where_it_looks(links, simulated):
    target = simulated.node_names([simulated.num_sources])[0]
    alone, together = (
        links.word_attention(edges=[(target, "a fine tent"), *more])[0]
        for more in ([], [(target, "never again, the worst camp stove")])
    )
    assert alone.text == together.text
    assert alone != together


def test_the_neighbor_token_looks_where_it_is_read_out(simulated):
    fitted = untrained(LinkPredictor, simulated, **{"model.readout": "neighbor"})
    assert isinstance(fitted.model, EdgeformerN)
    assert_attended(fitted.word_attention(simulated.node_names([0])[0]))


def test_edges_are_attended_to_as_they_are_classified(simulated):
    fitted = untrained(EdgeClassifier, simulated)
    source, target = simulated.node_names([3, simulated.num_sources + 2])
    text = "Our new tent is excellent, and the zipper is a joy in every weather we met."
    known, unknown = fitted.word_attention([(source, target, text), ("x", "y", text)])
    assert_attended([known, unknown])
    assert known != unknown
    assert set(known.elsewhere) == {"source", "target", "special"}


def test_other_models_say_that_they_have_no_attention(simulated):
    fitted = untrained(LinkPredictor, simulated, **{"model.name": "mean-sage"})
    with pytest.raises(InputError, match="Edgeformer"):
        fitted.word_attention(simulated.node_names([0])[0])
