"""Which passes are recorded: those that are worth it, and the same in every run of a training."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from edgeformers.training.cuda_graphs import GraphedModel
from edgeformers.training.speed import EVERY, faster_training, held_up_tokens, most_tokens
from tests.tiny_models import TINY_ENCODER

BERT = replace(TINY_ENCODER, width=768, heads=12, layers=12, ffn_width=3072)
CUDA = torch.device("cuda")


def test_small_passes_are_recorded_unless_they_are_few():
    assert most_tokens(None, BERT, steps=20) == 0
    assert most_tokens(None, BERT, steps=20_000) == held_up_tokens(BERT)


def test_what_is_asked_for_is_done():
    assert most_tokens(True, BERT, steps=1) == EVERY
    assert most_tokens(False, BERT, steps=10**6) == 0


def test_a_pass_is_small_where_the_host_takes_longer_than_the_gpu():
    """A layer of BERT has 7.08 million weights, each token 6 operations of each, both ways.

    5.5 ms at 4e14 operations a second are 2.2e12: 51,800 tokens. With half the width four times
    as many; how many layers there are is the same to both.
    """
    assert held_up_tokens(BERT) == pytest.approx(51_800, rel=1e-3)
    half = replace(BERT, width=384, ffn_width=1536)
    assert held_up_tokens(half) == pytest.approx(4 * 51_800, rel=1e-3)
    assert held_up_tokens(replace(BERT, layers=6)) == held_up_tokens(BERT)


def test_on_a_cpu_nothing_changes(make_edges):
    objective = make_edges()
    read = objective.read
    with faster_training(objective, True, device=torch.device("cpu"), steps=10**6):
        assert objective.read is read


@pytest.mark.parametrize("name", ["make_edges", "make_links"])
def test_every_model_over_a_language_model_is_recorded_while_it_trains(name, request, monkeypatch):
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 0))
    objective = request.getfixturevalue(name)()
    with faster_training(objective, None, device=CUDA, steps=10**6):
        assert isinstance(objective.read, GraphedModel)
    assert objective.read is objective.model


def test_an_objective_of_another_kind_is_trained_as_it_is():
    objective = SimpleNamespace(read=len)
    with faster_training(objective, None, device=CUDA, steps=10**6):
        assert objective.read is len
