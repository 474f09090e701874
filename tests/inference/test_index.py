"""LinkIndex: the same recommendations from stored vectors, and only for the model it belongs to."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

import edgeformers.inference.index as index_module
from edgeformers.errors import FormatError, InputError
from edgeformers.inference.candidate_filter import CandidateFilter
from edgeformers.inference.index import (
    LinkIndex,
    best_positions,
    choose_probes,
    measure_recall,
)
from edgeformers.inference.load import load_fitted
from edgeformers.inference.vector_search import InvertedLists
from tests.inference.test_link_scorer import old_link_run

RUNS = [("link-run", "reviews"), ("reply-run", "replies")]  # two node types, and one


@pytest.fixture(scope="module", params=RUNS, ids=lambda names: names[0])
def run(request, tmp_path_factory):
    """The folder of a run with its index, and the model without."""
    name, network = request.param
    folder = tmp_path_factory.mktemp("indexed")
    plain = old_link_run(folder, name, network)
    LinkIndex.build(plain, folder / name / "index", show=False)
    return folder / name, plain


def opened(run):
    folder, plain = run
    return load_fitted(folder, network=plain.network.graph.path, device="cpu", show=False)


def sources_of(fitted, count=5):
    return fitted.nodes.ids_of(np.arange(count))


@pytest.fixture
def searched(monkeypatch):
    """A search even among few candidates."""
    monkeypatch.setattr(index_module, "SMALL", 0)


def no_encoding(*_, **__):
    raise AssertionError("a node was encoded")


def test_recommendations_are_those_without_an_index_and_encode_nothing(run, monkeypatch):
    _, plain = run
    fitted = opened(run)
    expected = {name: plain.recommend(name, 5) for name in sources_of(plain)}
    monkeypatch.setattr("edgeformers.inference.trained_components.encode_nodes", no_encoding)
    for name, wanted in expected.items():
        found = fitted.recommend(name, 5)
        assert [one.node for one in found] == [one.node for one in wanted]
        for one, other in zip(found, wanted, strict=True):
            assert one.score == pytest.approx(other.score, rel=1e-4, abs=1e-4)
            assert one.components == pytest.approx(other.components, rel=1e-3, abs=1e-3)


def test_the_record_says_what_the_index_holds(run):
    folder, plain = run
    record = json.loads((folder / "index" / "index.json").read_text())
    assert record["targets"] == len(plain.scorer.candidates)
    assert record["recall_at_10"] == 1.0
    assert record["bytes"] == sum(file["bytes"] for file in record["files"].values())
    assert LinkIndex.open(folder / "index", plain).facts.kind == "exact"


def test_a_search_finds_what_ranking_finds(run, searched, tmp_path):
    _, plain = run
    LinkIndex.build(plain, tmp_path / "index", show=False)
    fitted = replace(plain, index_folder=tmp_path / "index")
    assert (tmp_path / "index" / "first.npy").exists()
    sources = np.arange(plain.network.graph.num_sources)
    allowed = np.arange(len(plain.scorer.candidates)) % 3 > 0
    for options in ({}, {"allowed": allowed}, {"exclude": plain.seen(sources)}):
        found, wanted = (model.scorer.rank(sources, 7, **options) for model in (fitted, plain))
        assert np.array_equal(found.row, wanted.row)
        assert np.array_equal(found.rank, wanted.rank)
        np.testing.assert_allclose(found.score, wanted.score, rtol=1e-4, atol=1e-4)


def test_later_edges_change_the_vectors_of_their_nodes_only(run, searched, tmp_path):
    _, plain = run
    LinkIndex.build(plain, tmp_path / "index", show=False)
    first, untouched = (replace(plain, index_folder=tmp_path / "index") for _ in range(2))
    without = replace(plain)
    source, second = sources_of(plain, 2)
    (target,) = plain.nodes.ids_of(plain.scorer.candidates[-1:])
    edges = [
        (source, target, "much better than before"),
        ("new source", target, None),
        (second, "new target", "what everybody wants"),
    ]
    before = untouched.recommend(source, 5)
    for model in (first, without):
        model.update(edges)
    everything = len(first.scorer.candidates)
    for name, k in ((source, 1), (source, everything), ("new source", everything)):
        found, wanted = (model.recommend(name, k) for model in (first, without))
        assert {one.node for one in found} == {one.node for one in wanted}
        assert ("new target" in {one.node for one in found}) or k == 1
        for one, other in zip(found, wanted, strict=True):
            assert one.score == pytest.approx(other.score, rel=1e-3, abs=1e-3)
    queries, keys = np.array([0]), first.scorer.candidates
    np.testing.assert_allclose(
        first.scorer.scores(queries), without.scorer.scores(queries), rtol=1e-3, atol=1e-3
    )
    np.testing.assert_allclose(
        first.scorer.cached_keys(keys), without.scorer.keys(keys), rtol=1e-3, atol=1e-3
    )
    assert [one.node for one in untouched.recommend(source, 5)] == [one.node for one in before]


@pytest.mark.parametrize("side", ["source", "target"])
def test_stored_vectors_are_not_used_for_removed_edges(run, searched, tmp_path, side):
    _, plain = run
    LinkIndex.build(plain, tmp_path / "index", show=False)
    indexed, without = replace(plain, index_folder=tmp_path / "index"), replace(plain)
    graph, nodes = plain.network.graph, np.arange(plain.network.graph.num_nodes)
    first = 0 if side == "source" else int(plain.scorer.candidates[0])
    node = first + int(np.argmax(graph.adjacency.degrees()[first:][:5]))
    (name,) = plain.nodes.ids_of([node])
    changed = np.append(graph.adjacency.neighbors_of(node), node)
    before = indexed.embed_nodes(changed)
    indexed.recommend(sources_of(plain, 1)[0], 1)
    for model in (indexed, without):
        model.update([("new source", name, None), (name, "new target", "a good film")])
        model.remove_edges(name)
    assert not np.isclose(indexed.embed_nodes(changed), before).all(1).all()
    for own in ("source", "target"):
        vectors = [model.embed_nodes(nodes, side=own) for model in (indexed, without)]
        np.testing.assert_allclose(*vectors, rtol=1e-3, atol=1e-4)
    keys = indexed.scorer.candidates
    np.testing.assert_allclose(
        indexed.scorer.cached_keys(keys), without.scorer.keys(keys), rtol=1e-3, atol=1e-3
    )
    sources = np.arange(graph.num_sources)
    found, wanted = (model.scorer.rank(sources, 7) for model in (indexed, without))
    np.testing.assert_allclose(found.score, wanted.score, rtol=1e-3, atol=1e-3)


def test_the_index_of_another_model_or_network_is_refused(run, tmp_path):
    folder, plain = run
    shutil.copytree(folder / "index", tmp_path / "index")
    stale = replace(plain, ensemble=None, index_folder=tmp_path / "index")
    with pytest.raises(InputError, match=r"another model; build it again with: edgeformers index"):
        stale.recommend(sources_of(plain, 1)[0])
    (other,) = (name for name, _ in RUNS if name != folder.name)
    network = dict(RUNS)[other]
    foreign = old_link_run(tmp_path, other, network)
    with pytest.raises(InputError, match="another model"):
        LinkIndex.open(folder / "index", foreign)


@pytest.mark.parametrize("damage", ["cut", "flipped", "record", "missing"])
def test_a_damaged_index_is_a_format_error(run, tmp_path, damage):
    folder, plain = run
    shutil.copytree(folder / "index", tmp_path / "index")
    keys, record = tmp_path / "index" / "keys.npy", tmp_path / "index" / "index.json"
    content = bytearray(keys.read_bytes())
    if damage == "cut":
        keys.write_bytes(content[:-4])
    elif damage == "flipped":
        content[-2] ^= 1
        keys.write_bytes(content)
    elif damage == "record":
        record.write_text(record.read_text().replace("exact", "inexact"))
    else:
        keys.unlink()
    with pytest.raises(FormatError, match="build it again with: edgeformers index"):
        LinkIndex.open(tmp_path / "index", plain)


def test_files_of_others_are_kept(run, tmp_path):
    _, plain = run
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"notes.txt"):
        LinkIndex.build(plain, tmp_path / "index", show=False)
    assert (tmp_path / "index" / "notes.txt").read_text() == "mine"


@pytest.fixture
def inverted(monkeypatch):
    """A search by FAISS IVF even among few candidates; it compares all lists."""
    pytest.importorskip("faiss")
    monkeypatch.setattr(index_module, "LARGE", 5)
    monkeypatch.setattr(index_module, "choose_probes", compare_all_lists)


def compare_all_lists(search, *_):
    search.probes = search.index.nlist


def test_inverted_lists_serve_recommendations_filters_and_updates(run, inverted, tmp_path):
    _, plain = run
    facts = LinkIndex.build(plain, tmp_path / "index", show=False).facts
    assert (facts.kind, facts.recall_at_10) == ("ivf", 1.0)
    fitted, without = replace(plain, index_folder=tmp_path / "index"), replace(plain)
    assert isinstance(fitted.index.search(), InvertedLists)
    assert fitted.index.search().probes == facts.settings["lists"]
    (source,), names = sources_of(plain, 1), plain.nodes.ids_of(plain.scorer.candidates)
    filters = [None, CandidateFilter(deny=names[::3]), CandidateFilter(allow=names[:2])]
    for _ in ("before an update", "after"):
        for candidates in filters:
            found, wanted = (
                {one.node: one.score for one in model.recommend(source, 5, candidates=candidates)}
                for model in (fitted, without)
            )
            assert found == pytest.approx(wanted, rel=1e-3, abs=1e-3)
        for model in (fitted, without):
            model.update([(source, names[-1], "much better"), ("new", names[0], "as before")])
            model.update([(source, "new target", "what everybody wants")])


def test_probes_are_chosen_by_other_sources_than_those_of_the_recall(
    run, inverted, monkeypatch, tmp_path
):
    chosen, tested = [], []
    monkeypatch.setattr(index_module, "TESTED", 4)
    monkeypatch.setattr(index_module, "choose_probes", lambda *of: chosen.extend(of[2]))
    monkeypatch.setattr(index_module, "measure_recall", lambda *of: tested.extend(of[2]) or 1.0)
    LinkIndex.build(run[1], tmp_path / "index", show=False)
    assert len(chosen) == len(tested) == 4
    assert not {row.tobytes() for row in chosen} & {row.tobytes() for row in tested}


def test_low_recall_is_reported_and_search_is_exact_instead(
    run, inverted, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(index_module, "measure_recall", lambda *_: 0.9)
    facts = LinkIndex.build(run[1], tmp_path / "index").facts
    assert (facts.kind, facts.recall_at_10, facts.settings) == ("exact", 1.0, {})
    assert "only 0.900 of the 10 best" in capsys.readouterr().err
    assert not (tmp_path / "index" / "ivf.faiss").exists()


def test_the_best_positions_are_those_of_all_products(monkeypatch):
    rng = np.random.default_rng(0)
    keys, queries = (rng.normal(size=(n, 8)).astype(np.float32) for n in (50, 6))
    monkeypatch.setattr(index_module, "blocks", lambda table: [(0, table[:45]), (45, table[45:])])
    expected = np.argsort(-(queries @ keys.T), axis=1)
    assert np.array_equal(best_positions(keys, queries, 10), expected[:, :10])
    assert np.array_equal(best_positions(keys, queries, 99), expected)


def test_probes_are_doubled_until_recall_suffices_and_products_computed_once(monkeypatch):
    pytest.importorskip("faiss")
    rng, computed = np.random.default_rng(0), []
    keys, queries = (rng.normal(size=(n, 8)).astype(np.float32) for n in (3_000, 50))
    monkeypatch.setattr(
        index_module, "best_positions", lambda *of: computed.append(of) or best_positions(*of)
    )
    search = InvertedLists.build(keys, queries)
    choose_probes(search, keys, queries)
    assert search.probes == search.index.nlist // 4  # these vectors form no clusters
    assert len(computed) == 1
    search.probes, half = 1, InvertedLists(search.index, search.basis, 8)
    monkeypatch.setattr(index_module, "WANTED_RECALL", measure_recall(half, keys, queries))
    choose_probes(search, keys, queries)
    assert search.probes == 8
