"""Which faster ways are taken: worth their cost, and the same for every run of a training."""

from dataclasses import replace

import torch

from edgeformers.models.registry import TINY_ENCODER
from edgeformers.train.speed import choose_ways, count_tokens, faster_training, step_seconds
from tests.train.batches import edges

BERT = replace(TINY_ENCODER, width=768, heads=12, layers=12, ffn_width=3072)


SMALL, LARGE = 9_000, 90_000  # tokens of a step


def test_small_steps_are_recorded_unless_they_are_few():
    assert choose_ways("auto", BERT, steps=20, tokens=SMALL).most_tokens == 0
    many = choose_ways("auto", BERT, steps=20_000, tokens=SMALL)
    assert many.most_tokens > SMALL
    assert not many.compiles


def test_large_steps_are_compiled_unless_they_are_few():
    few, many = (choose_ways("auto", BERT, steps=n, tokens=LARGE) for n in (500, 50_000))
    assert not few.compiles
    assert many.compiles
    assert few.most_tokens == many.most_tokens == 0


def test_what_is_asked_for_is_done():
    assert choose_ways("on", BERT, steps=1, tokens=SMALL).compiles
    off = choose_ways("off", BERT, steps=10**6, tokens=LARGE)
    assert (off.compiles, off.most_tokens) == (False, 0)


def test_a_step_is_small_where_the_host_takes_longer_than_the_gpu():
    most = choose_ways("on", BERT, steps=1, tokens=SMALL).most_tokens
    gpu, host = step_seconds(BERT, most)
    assert 0.99 < gpu / host < 1.01


def test_on_a_cpu_nothing_changes(make_edges):
    objective = make_edges()
    read = objective.read
    with faster_training(objective, "on", device=torch.device("cpu"), steps=10**6, tokens=100):
        assert objective.read is read
        assert not any("forward" in vars(layer) for layer in objective.model.encoder.layers)


def test_tokens_of_all_pieces_are_counted(make_links, make_edges):
    objective = make_links(**{"links.uniform_negatives": 5})
    pairs, drawn = objective.make(objective.batches(0)[0], 0, None)
    parts = (pairs.query, pairs.key, drawn)
    assert count_tokens([pairs, drawn]) == sum(part.text.num_tokens for part in parts)
    assert count_tokens([edges(3)]) == edges(3).text.num_tokens
