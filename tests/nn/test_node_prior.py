"""Node vectors predicted from labeled edges: starting values, unknown nodes, sides."""

import pytest
import torch

from edgeformers.errors import InputError
from edgeformers.nn.node_prior import NodePrior


@pytest.fixture
def prior():
    torch.manual_seed(0)
    prior = NodePrior(num_nodes=4, width=6, classes=3)
    counts = torch.randint(0, 5, (2, 4, 3, 1)).float()
    summaries = torch.cat([counts * torch.rand(2, 4, 3, 3).softmax(-1), counts], -1)
    prior.set_summaries(*summaries)
    return prior


def randomize(prior):
    for parameter in prior.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return prior


def test_it_adds_nothing_before_training(prior):
    summaries = prior.look_up(torch.tensor([0, 1]), torch.tensor([2, -1]))
    assert torch.equal(prior(summaries), torch.zeros(2, 2, 6))


def test_unknown_nodes_have_a_summary_of_zeros(prior):
    found = prior.look_up(torch.tensor([-1, 2]), torch.tensor([3, -1]))
    assert found.shape == (2, 2, 3, 4)
    assert torch.equal(found[0, 0], torch.zeros(3, 4)) == torch.equal(found[1, 1], found[0, 0])
    assert torch.equal(found[1, 0], prior.source[2])
    assert torch.equal(found[0, 1], prior.target[3])


def test_sides_have_maps_of_their_own(prior):
    randomize(prior)
    summaries = prior.look_up(torch.tensor([0, 1]), torch.tensor([2, 3]))
    both = prior(summaries)
    target = NodePrior(4, 6, 3, sides=("target",))
    target.load_state_dict(prior.state_dict(), strict=False)
    assert torch.equal(target(summaries), both[:, 1:])
    same = summaries[:, :1].expand(-1, 2, -1, -1)
    assert not torch.allclose(prior(same)[:, 0], prior(same)[:, 1])


def test_features_are_finite_for_a_class_without_edges(prior):
    summaries = torch.zeros(4, 3, 4)
    prior.set_summaries(summaries, summaries)
    assert prior.features(prior.source).isfinite().all()


def test_an_average_node_differs_by_its_number_of_edges_only(prior):
    average = prior.features(1000 * prior.average)
    assert average[:-1].abs().max() < 1e-4
    assert average[-1] > prior.features(prior.average)[-1] > prior.features(prior.source[-1])[-1]


def test_summaries_of_another_shape_are_refused(prior):
    with pytest.raises(InputError, match=r"node summaries must be \[4, 3, 4\] \(got \[4, 2, 3\]\)"):
        prior.set_summaries(torch.zeros(4, 2, 3), torch.zeros(4, 2, 3))
