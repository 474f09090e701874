"""Who is active at the same times: vectors over time, and what they are worth beside a model."""

from datetime import UTC, datetime

import numpy as np
import pytest
import torch

from edgeformers.baselines.base import ValidationRanking
from edgeformers.baselines.temporal.activity_profiles import (
    PERIODS,
    activity_profiles,
    has_usable_times,
)
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.splits import PROFILE, TRAIN, SplitConfig
from edgeformers.data.table import EdgeTable
from edgeformers.estimators import LinkPredictor, load
from edgeformers.inference.components import ActivityComponent
from edgeformers.inference.ensemble import Standardized, _activity_if_better, fit_ensemble

COLD = "cold-source+drop-target"
YEARS, FILMS, CRITICS, EDGES = 12, 10, 300, 4  # few edges a critic: links tell little


def write(out, *, is_told=True):
    """A film is reviewed in its year and critics are active for two: nothing else tells a link."""
    draw = np.random.default_rng(0)
    films = [[f"f{year}-{i}" for i in range(FILMS)] for year in range(YEARS)]
    rows = []
    for critic in range(CRITICS):
        first = draw.integers(0, YEARS - 1)
        for _ in range(EDGES):
            year = first + draw.integers(0, 2)
            day = draw.integers(1, 28)
            row = {"source": f"c{critic}", "target": films[year][draw.integers(0, FILMS)]}
            time = datetime(2000 + int(year), 6, int(day), tzinfo=UTC)
            rows.append({**row, "text": "nice", **({"time": time} if is_told else {})})
    table = EdgeTable.from_rows(lambda: rows, fields=list(rows[0]), origin="films", bipartite=True)
    splits = [SplitConfig(name="link", how="per_source", unseen="drop_target", new_pairs=True)]
    config = PrepareConfig(tokenizer="train:200", progress=False, splits=splits)
    return write_network(table, out, config=config)


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    return write(tmp_path_factory.mktemp("films") / "network")


def make(**settings):
    usual = {"train.epochs": 1, "train.batch_size": 64, "model.node_width": 8}
    return LinkPredictor("scratch:2x32", settings={**usual, **settings}, show=False, device="cpu")


@pytest.fixture(scope="module")
def fitted(films):
    return make().fit(films)


def year_of(graph, edges):
    return graph.times[edges].astype("M8[us]").astype("M8[Y]").astype(int) + 1970


def test_a_profile_holds_the_share_of_training_edges_per_period(films):
    [(query, key)] = activity_profiles(films, "link", [0.01])  # nothing is spread
    assert (query == key).all()
    assert key.shape[1] <= PERIODS
    np.testing.assert_allclose(key.sum(1)[key.any(1)], 1, rtol=1e-5)
    codes = films.split("link")
    for node in (0, 7, films.num_sources + 3):
        ends = films.src if node < films.num_sources else films.dst
        own = np.flatnonzero((ends == node) & (codes == TRAIN))
        distinct = len(np.unique(films.times[own]))
        assert 1 <= np.count_nonzero(key[node] > 1e-6) <= distinct
        assert key[node].max() * len(own) == pytest.approx(round(key[node].max() * len(own)))
    never = np.setdiff1d(
        np.arange(films.num_nodes),
        np.concatenate([films.src[codes == TRAIN], films.dst[codes == TRAIN]]),
    )
    assert not key[never].any()


def test_times_of_validation_and_test_links_are_unused(films, tmp_path):
    [(_, before)] = activity_profiles(films, "link", [2.0])
    codes = films.split("link")
    changed = films.times.copy()
    changed[codes != TRAIN] = films.times.min()
    other = write(tmp_path / "other")
    other.times = changed
    assert (other.split("link") == codes).all()
    [(_, after)] = activity_profiles(other, "link", [2.0])
    assert (before == after).all()


def test_less_smoothing_separates_active_periods_more(films):
    years = np.arange(YEARS)
    for _, key in activity_profiles(films, "link", [1.0, 4.0]):
        codes = films.split("link") == TRAIN
        of_year = np.stack(
            [
                key[
                    np.unique(films.dst[codes & (year_of(films, slice(None)) == 2000 + year)])
                ].mean(0)
                for year in years
            ]
        )
        near = of_year @ of_year.T
        assert (near.argmax(1) == years).all()
        assert near[0, 1] > near[0, 3] >= near[0, 9]


def test_activity_profiles_improve_ranking_if_times_are_informative(films, fitted, tmp_path):
    without_times = write(tmp_path / "untold", is_told=False)
    assert not has_usable_times(without_times, "link")
    ours, without = (
        made.evaluate(protocols=("full",))["full/mrr"]
        for made in (fitted, make().fit(without_times))
    )
    assert ours > without * 1.15


def standardized(graph, query, key):
    """A fixed score."""
    return Standardized(ActivityComponent(torch.from_numpy(query), torch.from_numpy(key)), graph)


def random_part(graph):
    """A score that tells nothing."""
    drawn = np.random.default_rng(1).standard_normal((2, graph.num_nodes, 8))
    return standardized(graph, *drawn.astype(np.float32))


def test_uninformative_times_are_left_out(films, tmp_path):
    ranking = ValidationRanking(films, "link")
    assert _activity_if_better(films, "link", [random_part(films)], ranking) is not None
    right = np.zeros((films.num_nodes, films.num_nodes), np.float32)
    right[ranking.queries, ranking.positives + films.num_sources] = 1.0
    knows_all = standardized(films, right, np.eye(films.num_nodes, dtype=np.float32))
    knows_all.scale = 99.0
    assert _activity_if_better(films, "link", [knows_all], ranking) is None
    assert _activity_if_better(write(tmp_path / "n", is_told=False), "link", [], ranking) is None


def test_a_cold_source_is_the_mean_of_its_links(films):
    [(query, key)] = activity_profiles(films, COLD, [1.0])
    codes = films.split(COLD)
    adjacency = films.training_adjacency(COLD)
    held = np.flatnonzero(adjacency.held_out)
    assert len(held)
    for node in held[:5]:
        linked = np.unique(films.dst[(films.src == node) & (codes == PROFILE)])
        np.testing.assert_allclose(query[node], key[linked].mean(0), rtol=1e-4, atol=1e-6)
    warm = np.setdiff1d(np.arange(films.num_sources), held)
    assert (query[warm] == key[warm]).all()


def test_a_saved_model_serves_known_and_new_sources(films, tmp_path):
    made = make(**{"data.split": COLD}).fit(films)
    loaded = load(made.save(tmp_path / "model"), network=films)
    adjacency = films.training_adjacency(COLD)
    trained = np.unique(films.dst[films.split(COLD) == TRAIN])
    node = next(
        one
        for one in np.flatnonzero(adjacency.held_out)
        if np.isin(adjacency.neighbors_of(one), trained).all()
    )
    names = films.node_names(adjacency.neighbors_of(node))
    texts = films.texts(adjacency.edges_of(node))
    fitted = loaded.fitted_
    edges = fitted.new_edges(list(zip(names, texts, strict=True)), "source")
    new, held = fitted.scorer.fold_in_source(edges), fitted.scorer.queries(np.array([node]))
    np.testing.assert_allclose(new.vectors, held.vectors, rtol=1e-3, atol=1e-4)


def test_times_are_unusable_if_missing_equal_or_too_many_nodes(
    films, simulated, tmp_path, monkeypatch
):
    monkeypatch.setattr("edgeformers.baselines.temporal.activity_profiles.MAX_NODES", 10)
    assert not has_usable_times(films, "link")
    monkeypatch.undo()
    assert has_usable_times(films, "link")
    rows = [
        {
            "source": f"s{i % 5}",
            "target": f"t{i % 7}",
            "text": "a",
            "time": datetime(2020, 1, 1, tzinfo=UTC),
        }
        for i in range(40)
    ]
    table = EdgeTable.from_rows(lambda: rows, fields=list(rows[0]), origin="one", bipartite=True)
    config = PrepareConfig(tokenizer="train:50", progress=False)
    assert not has_usable_times(write_network(table, tmp_path / "one", config=config), "link")


def test_times_are_unusable_in_a_chronological_split(films):
    assert not has_usable_times(films, "chronological")
    assert has_usable_times(
        films, "chronological-per-source"
    )  # validation says what they are worth
    assert has_usable_times(films, "random")


def test_activity_profiles_may_be_the_only_component(films, fitted, monkeypatch):
    for name in ("EASE_NODES", "ALS_LINKS", "LIGHTGCN_LINKS", "LIGHTGCN_LINKS_GPU"):
        monkeypatch.setattr(f"edgeformers.inference.ensemble.{name}", 0)
    plain = make(**{"links.ensemble": False}).fit(films)
    ensemble = fit_ensemble(plain.fitted_)
    assert [component.name for component in ensemble.components] == ["activity_profiles"]
