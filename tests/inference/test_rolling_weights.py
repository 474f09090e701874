"""Weights fitted as of each moment: planted weights are found, fashions are followed."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from edgeformers.baselines.temporal.recent_popularity import RecentPopularity
from edgeformers.data.network import PrepareConfig
from edgeformers.data.splits import SplitConfig
from edgeformers.data.times import DAY
from edgeformers.estimators import LinkPredictor
from edgeformers.evaluation.rolling import RollingLinks
from edgeformers.inference import rolling_validation
from edgeformers.inference.components import EASEComponent
from edgeformers.inference.ensemble import fit_ensemble
from edgeformers.inference.rolling import RollingPredictor
from edgeformers.inference.rolling_validation import RollingValidation
from edgeformers.inference.rolling_weights import RIDGE, Choices, fit_mixed_weights, fit_weights
from edgeformers.inference.saved_components import GROUPS
from edgeformers.inference.temporal_components import RecentHistoryComponent

TRUE = torch.tensor([1.5, 0.0, -1.0])


def draw_choices(links=2_000, candidates=12, weights=TRUE):
    """Links drawn in proportion to exp(score); every third candidate is not available."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        tables = torch.randn(links, len(weights), candidates)
        available = torch.rand(links, candidates) > 1 / 3
        available[:, 0] = True
        scores = (weights @ tables).masked_fill(~available, -torch.inf)
        columns = torch.multinomial(scores.softmax(1), 1)[:, 0]
    available[torch.arange(links), columns] = False
    return Choices(tables, columns, available)


def test_planted_weights_are_found():
    weights = fit_weights(draw_choices(), torch.zeros(3), np.zeros(3, bool))
    torch.testing.assert_close(weights, TRUE, atol=0.15, rtol=0)


def test_a_component_that_would_count_against_links_is_left_out():
    weights = fit_weights(draw_choices(), torch.zeros(3), np.ones(3, bool))
    assert weights[2] == 0
    assert weights[0] > 1


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_weights_are_where_the_penalized_likelihood_is_highest(scale):
    choices = draw_choices().subset(np.arange(2_000) < 40)
    choices = replace(choices, tables=choices.tables * scale)
    prior = torch.tensor([0.5, 0.0, -0.5])
    weights = fit_weights(choices, prior, np.zeros(3, bool)).double().requires_grad_()
    ranked = choices.is_other.clone()
    ranked[torch.arange(40), choices.columns] = True
    scores = (weights @ choices.tables.double()).masked_fill(~ranked, -torch.inf)
    loss = F.cross_entropy(scores, choices.columns, reduction="sum")
    (loss + RIDGE * (weights - prior).square().sum()).backward()
    assert weights.isfinite().all()
    assert weights.grad.norm() < 1e-2 * scale * 40  # of links that each move it by about the scale


def test_few_links_hardly_move_the_weights():
    prior, few = torch.tensor([0.5, 0.5, 0.0]), np.arange(2_000) < 3
    moved = fit_weights(draw_choices().subset(few), prior, np.zeros(3, bool))
    assert (moved - prior).abs().max() < 0.2
    assert torch.equal(fit_weights(draw_choices().subset(few & ~few), prior, few[:3]), prior)


class FakeValidation:
    """What `fit_mixed_weights` reads of a `RollingValidation`."""

    def __init__(self, choices, groups, scales=(1.0, 2.0, 4.0)):
        self.tables, self.groups, self.scales = choices.tables, groups, np.array(scales)
        self.columns, self.is_other = choices.columns.numpy(), choices.is_other.numpy()


def test_columns_of_a_family_are_mixed_and_groups_have_their_own_weights():
    choices = draw_choices(weights=torch.tensor([0.0, 1.0, -1.0]))
    turned = draw_choices(weights=torch.tensor([2.0, 0.1, -0.1]))
    both = Choices(
        *(torch.cat(pair) for pair in zip(*map(vars_of, (choices, turned)), strict=True))
    )
    groups = np.repeat([0, 2], len(choices.columns))
    mixed, weights = fit_mixed_weights(FakeValidation(both, groups), [1, 2])
    assert weights.shape == (GROUPS, 2)
    family = mixed[1]
    np.testing.assert_allclose(family[0] / 2, -family[1] / 4, rtol=0.2)  # in units of raw scores
    assert weights[0, 1] > 2 * weights[2, 1]
    assert weights[2, 0] > 2 * weights[0, 0]
    assert (weights[1] > 0).all()  # of all links together, as this group has none


def test_weights_are_for_scores_as_components_give_them():
    choices = draw_choices()
    groups, raw = np.zeros(len(choices.columns), int), choices.tables.clone()
    scales = np.array([5.0, 2.0, 4.0])
    raw /= torch.from_numpy(scales).float()[:, None]
    mixed, weights = fit_mixed_weights(FakeValidation(choices, groups, scales), [1, 2])
    family = mixed[1].float() @ raw[:, 1:]
    scores = weights[0, 0].float() * raw[:, 0] + weights[0, 1].float() * family
    expected = TRUE @ choices.tables
    assert np.corrcoef(scores.flatten(), expected.flatten())[0, 1] > 0.99


def vars_of(choices):
    return choices.tables, choices.columns, choices.is_other


def fashion_rows(days=120, per_day=6, targets=12):
    """Every ten days another two targets are in fashion; a new target comes every 15 days."""
    draw, rows = np.random.default_rng(0), []
    for day in range(days):
        known = targets + day // 15
        for _ in range(per_day):
            hot = (day // 10 * 5 + np.arange(2)) % known
            target = draw.choice(hot) if draw.random() < 0.7 else draw.integers(known)
            ends = {"source": f"u{draw.integers(60)}", "target": f"t{target}"}
            rows.append({**ends, "text": "fine", "time": DAY * day})
    return rows


def sequel_rows(sources=40, targets=30, length=12):
    """Every source goes on from one target to the next, ten days apart."""
    draw, rows = np.random.default_rng(0), []
    for source in range(sources):
        first, day = draw.integers(targets), draw.integers(60)
        for i in range(length):
            ends = {"source": f"u{source}", "target": f"t{(first + i) % targets}"}
            rows.append({**ends, "text": "fine", "time": DAY * int(day + 10 * i)})
    return rows


def make_chronological(make_network, rows, fractions):
    splits = [SplitConfig(name="link", how="chronological", fractions=fractions)]
    config = PrepareConfig(tokenizer="train:200", progress=False, splits=splits)
    return make_network(rows, config=config)


@pytest.fixture
def fashions(make_network):
    return make_chronological(make_network, fashion_rows(), (0.5, 0.25, 0.25))


def untrained(graph):
    settings = {"links.ensemble": True, "data.split": "link"}
    predictor = LinkPredictor("scratch:2x32", recipe="fast", settings=settings, show=False)
    return predictor.make_objective(graph).fitted


def test_fitted_weights_follow_fashions(fashions):
    alone = untrained(fashions)
    fitted = replace(alone, ensemble=fit_ensemble(alone))
    links = RollingLinks(fashions, "link")
    ours = links.rank(RollingPredictor(fitted)).metrics("rolling")["mrr"]
    popularity = RecentPopularity([1e6]).fit_rolling(fashions, "link")
    assert ours > 1.3 * links.rank(popularity).metrics("rolling")["mrr"]


def test_weights_need_no_test_part(make_network):
    """Whoever recommends every night trains on all edges, and keeps none for a test."""
    graph = make_chronological(make_network, fashion_rows(), (0.7, 0.3, 0.0))
    alone = untrained(graph)
    fitted = replace(alone, ensemble=fit_ensemble(alone))
    links = RollingLinks(graph, "link", "val")
    ours = links.rank(RollingPredictor(fitted)).metrics("rolling")["mrr"]
    popularity = RecentPopularity([1e6]).fit_rolling(graph, "link")
    assert ours > 1.3 * links.rank(popularity).metrics("rolling")["mrr"]


def test_of_many_validation_links_some_are_scored(fashions, monkeypatch):
    fitted = untrained(fashions)
    everything = RollingValidation(fitted, [])
    monkeypatch.setattr(rolling_validation, "MAX_LINKS", 30)
    assert 15 <= len(RollingValidation(fitted, [])) <= 30 < len(everything)
    monkeypatch.setattr(rolling_validation, "MAX_LINKS", len(everything))
    assert len(RollingValidation(fitted, [])) == len(everything)  # although some edges are no links


def test_targets_without_links_are_not_compared(make_network):
    """They have no score: their only edges so far are unfavorable."""
    rows = fashion_rows()
    for row in rows:
        row["label"] = "good" if int(row["target"][1:]) % 3 else "bad"
    splits = [SplitConfig(name="link", how="chronological", fractions=(0.5, 0.25, 0.25))]
    options = {"tokenizer": "train:200", "progress": False, "positive_labels": ["good"]}
    graph = make_network(rows, config=PrepareConfig(splits=splits, **options))
    fitted = untrained(graph)
    predictor, links = RollingPredictor(fitted), RollingLinks(graph, "link", "val")
    for block in links.blocks(predictor.observe):
        assert predictor.has_arrived[block.columns].all()
        assert not (block.is_other & ~predictor.has_arrived).any()
    assert not predictor.has_arrived.all()
    assert len(RollingValidation(fitted, [])) == links.num_links > 0


def test_recent_histories_count_where_one_target_leads_to_the_next(make_network):
    splits = [SplitConfig(name="link", how="chronological", fractions=(0.6, 0.2, 0.2))]
    config = PrepareConfig(tokenizer="train:200", progress=False, splits=splits)
    ensemble = fit_ensemble(untrained(make_network(sequel_rows(), config=config)))
    named = zip(ensemble.components, ensemble.rolling_weights.T[1:], strict=True)
    weights = {component.name: weight for component, weight in named}
    assert (weights[RecentHistoryComponent.name] > 0).all()
    assert not weights.get(EASEComponent.name, torch.zeros(1)).any()  # its keys never change


def old_target_rows(edges=200, years=8):
    """Years of links to the same few targets: none has been new for a long time."""
    draw = np.random.default_rng(0)
    rows = [{"source": f"u{at % 10}", "target": f"t{at}", "time": 0} for at in range(10)]
    for at in range(edges):
        ends = {"source": f"u{draw.integers(20)}", "target": f"t{min(draw.geometric(0.3), 10) - 1}"}
        rows.append({**ends, "time": int(DAY * 365 * years * at / edges)})
    return [{**row, "text": "fine"} for row in rows]


def test_scores_that_hardly_vary_in_validation_get_no_weight(make_network):
    splits = [SplitConfig(name="link", how="chronological", fractions=(0.7, 0.15, 0.15))]
    config = PrepareConfig(tokenizer="train:200", progress=False, splits=splits)
    fitted = untrained(make_network(old_target_rows(), config=config))
    ensemble = fit_ensemble(fitted)
    assert ensemble.rolling_weights.isfinite().all()
    assert ensemble.rolling_weights.any()
    scores = replace(fitted, ensemble=ensemble).scorer.scores(np.arange(20))
    assert scores.std() > 0


def test_components_that_get_no_weight_are_left_out(make_network):
    splits = [SplitConfig(name="link", how="chronological", fractions=(0.7, 0.15, 0.15))]
    config = PrepareConfig(tokenizer="train:200", progress=False, splits=splits)
    fitted = untrained(make_network(old_target_rows(), config=config))
    ensemble = fit_ensemble(fitted)
    for component, weights in zip(ensemble.components, ensemble.rolling_weights.T[1:], strict=True):
        if not getattr(component, "mix", torch.ones(1)).any():
            assert not weights.any()
    names = {c.name for c in replace(fitted, ensemble=ensemble).scorer.components}
    assert "novelty" not in names  # all targets are years old


@pytest.mark.parametrize("seed", range(4))
def test_scores_tell_targets_apart_where_validation_compares_almost_nothing(make_network, seed):
    draw = np.random.default_rng(seed)
    rows = [
        {"source": f"u{draw.integers(6)}", "target": f"t{draw.integers(3)}", "time": DAY * at}
        for at in range(20)
    ]
    splits = [SplitConfig(name="link", how="chronological", fractions=(0.7, 0.15, 0.15))]
    config = PrepareConfig(tokenizer="train:200", progress=False, splits=splits)
    graph = make_network([{**row, "text": "fine"} for row in rows], config=config)
    fitted = untrained(graph)
    scores = replace(fitted, ensemble=fit_ensemble(fitted)).scorer.scores(np.arange(3))
    assert scores.std() > 0
