"""Opening a network: at once, touching nothing, and naming what is damaged."""

import json
import os
import pickle
import shutil

import numpy as np
import pyarrow as pa
import pytest

from edgeformers.data.checksums import read_checked_record, write_record
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig
from edgeformers.data.splits import SplitConfig
from edgeformers.data.tokenize import add_tokens
from edgeformers.errors import FormatError, InputError

SPLITS = [SplitConfig(name="edge", how="random"), SplitConfig(name="link", how="per_source")]


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def full(make_network, make_nodes, tokenizer_folder):
    """A network with everything a network can have."""
    rows = [
        {
            "source": f"u{i % 3}",
            "target": f"i{i % 4}",
            "text": "good film " * i,
            "label": str(i % 2),
            "time": None,
            "edge_type": "ab"[i % 2],
            "weight": 1.0,
            "stars": i,
        }
        for i in range(8)
    ]
    nodes = make_nodes(
        [{"id": "u1", "labels": ["x"], "text": "bad"}, {"id": "i1", "labels": ["y"]}]
    )
    config = PrepareConfig(
        tokenizer=str(tokenizer_folder), splits=SPLITS, positive_labels=["1"], progress=False
    )
    return make_network(rows, nodes=[nodes], config=config, extra={"stars": pa.int8()})


def test_opening_reads_no_data(full):
    for path in files(full.path):
        if path.suffix in (".npy", ".parquet"):
            size = path.stat().st_size
            path.write_bytes(b"")
            os.truncate(path, size)  # nothing but zeros of the same length
    graph = EdgeTextGraph.open(full.path)
    assert repr(graph) == "EdgeTextGraph(network: 7 nodes, 8 edges, bipartite)"


def test_arrays_are_mapped_and_opened_when_touched(full):
    graph = EdgeTextGraph.open(full.path)
    opened = set(vars(graph))
    arrays = [graph.src, graph.dst, graph.labels, graph.times, graph.weights, graph.edge_types]
    arrays += [graph.text_hashes, graph.text_lengths, *graph.splits.values(), *graph.node_labels]
    arrays += [graph.adjacency.indptr, graph.adjacency.links]
    arrays += [graph.tokens.ids, graph.tokens.offsets]
    assert opened == {"path", "meta"}
    assert all(isinstance(array, np.memmap) for array in arrays)
    assert not any(array.flags.writeable for array in arrays)


def test_a_network_is_mapped_anew_in_another_process(full):
    full.texts([0])
    assert len(full.src) + len(full.labels) + len(full.adjacency.edge_ids) == 32
    sent = pickle.dumps(full)
    copy = pickle.loads(sent)
    assert set(vars(copy)) == {"path", "meta"}
    assert copy.texts([3]) == full.texts([3])


def test_every_flipped_byte_is_found(full):
    rng = np.random.default_rng(0)
    EdgeTextGraph.open(full.path, verify=True)
    for path in files(full.path):
        content = path.read_bytes()
        for place in {0, len(content) - 1, *rng.integers(0, len(content), 6).tolist()}:
            flipped = bytearray(content)
            flipped[place] ^= 1 << int(rng.integers(8))
            path.write_bytes(flipped)
            with pytest.raises(FormatError, match=path.name):
                EdgeTextGraph.open(full.path, verify=True)
        path.write_bytes(content)
    EdgeTextGraph.open(full.path, verify=True)


@pytest.mark.parametrize("change", ["delete", "cut", "lengthen"])
def test_a_file_that_is_missing_or_of_another_size_is_named(change, full):
    for path in files(full.path):
        if path.parent.parent.name == "tokens" or path.name == "network.json":
            continue
        content = path.read_bytes()
        if change == "delete":
            path.unlink()
        else:
            path.write_bytes(content[:-3] if change == "cut" else content + b"\0")
        words = "is missing" if change == "delete" else "is damaged"
        with pytest.raises(FormatError, match=rf"{path.name} {words}.*; prepare the network again"):
            EdgeTextGraph.open(full.path)
        path.write_bytes(content)


def test_swapped_files_are_found(full):
    src, dst = full.path / "src.npy", full.path / "dst.npy"
    src.rename(full.path / "x")
    dst.rename(src)
    (full.path / "x").rename(dst)
    with pytest.raises(FormatError, match=r"dst\.npy is damaged: its checksum differs"):
        EdgeTextGraph.open(full.path, verify=True)


def rewrite(graph, **changes):
    path = graph.path / "network.json"
    write_record(path, read_checked_record(path) | changes)


def test_another_schema_version_is_named(full):
    rewrite(full, schema_version=99)
    with pytest.raises(
        FormatError, match=r"network\.json has schema version 99, this library reads"
    ):
        EdgeTextGraph.open(full.path)


@pytest.mark.parametrize("content", ['{"name": "my-npm-package"}', '{"format": "other"}', "{}"])
def test_a_foreign_record_is_named(content, full):
    (full.path / "network.json").write_text(content)
    with pytest.raises(
        FormatError, match=r"network\.json does not describe a network of this libr"
    ):
        EdgeTextGraph.open(full.path)


@pytest.mark.parametrize("content", ["", "not json", "[1]", '{"format": '])
def test_a_damaged_record_is_named(content, full):
    (full.path / "network.json").write_text(content)
    with pytest.raises(FormatError, match=r"network\.json is damaged"):
        EdgeTextGraph.open(full.path)


def test_a_record_changed_by_hand_is_noticed(full):
    path = full.path / "network.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps(values | {"num_nodes": 8}, indent=1, ensure_ascii=False) + "\n")
    with pytest.raises(FormatError, match=r"network\.json is damaged: its checksum differs"):
        EdgeTextGraph.open(full.path)


def test_a_folder_that_is_no_network_is_named(tmp_path):
    with pytest.raises(
        FormatError,
        match=r"is not a prepared network: it has no network\.json; make one with: edge",
    ):
        EdgeTextGraph.open(tmp_path)
    with pytest.raises(FormatError, match="is not a prepared network"):
        EdgeTextGraph.open(tmp_path / "gone")


def zero(path):
    """The same length, nothing of the contents."""
    path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("texts.parquet", lambda graph: graph.texts([0])),
        ("texts.parquet", lambda graph: list(graph.iter_texts())),
        ("nodes.parquet", lambda graph: list(graph.iter_node_texts())),
        ("nodes.parquet", lambda graph: graph.node_names([0])),
        ("nodes.parquet", lambda graph: graph.nodes()),
        ("edges.parquet", lambda graph: graph.edges(["src"])),
        ("src.npy", lambda graph: graph.src),
        ("splits/edge.npy", lambda graph: graph.split("edge")),
        ("adjacency.links.npy", lambda graph: graph.adjacency),
    ],
)
def test_damage_met_while_reading_is_named(name, read, full):
    zero(full.path / name)
    graph = EdgeTextGraph.open(full.path)
    with pytest.raises(FormatError, match=rf"{name} is damaged"):
        read(graph)
    (full.path / name).unlink()
    with pytest.raises(FormatError, match=rf"{name} is (missing|damaged)"):
        read(EdgeTextGraph(full.path, full.meta))


def test_damage_inside_a_group_of_texts_is_named(full):
    path = full.path / "texts.parquet"
    content = bytearray(path.read_bytes())
    content[8:40] = bytes(32)
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"texts\.parquet is damaged"):
        EdgeTextGraph.open(full.path).texts([0])


def test_an_array_of_another_network_is_named(full, make_network):
    other = make_network(out="other")
    shutil.copy(other.path / "src.npy", full.path / "src.npy")
    with pytest.raises(FormatError, match=r"src\.npy has 5 rows for 8 edges; prepare the network"):
        _ = EdgeTextGraph(full.path, full.meta).src


def test_a_store_half_there_is_named(full):
    store = full.tokens.folder
    (store / "edges.ids.npy").unlink()
    with pytest.raises(FormatError, match=r"edges\.ids\.npy is missing"):
        _ = full.tokens
    (store / "tokens.json").unlink()
    with pytest.raises(
        FormatError, match=r"is not a token store: it has no tokens\.json; remove it"
    ):
        EdgeTextGraph.open(full.path, verify=True)


def test_texts_come_in_the_order_asked_for(reviews):
    assert reviews.texts([4, 0, 4, 2]) == ["badly", "A good film.", "badly", ""]
    assert reviews.texts([]) == []
    with pytest.raises(InputError, match=r"edges are numbered from 0 to 4 \(got -1 to 5\)"):
        reviews.texts([-1, 5])


def test_names_on_both_sides_are_counted_where_there_are_two(make_network):
    rows = [{"source": a, "target": b, "text": "hi"} for a, b in ("ab", "ba", "cd", "ce")]
    assert make_network(rows).node_index.count_shared_ids() == 2
    assert make_network(rows, out="one", bipartite=False).node_index.count_shared_ids() == 0


def test_nodes_are_known_by_name_and_number(reviews):
    assert reviews.node_names([3, 0, 5]) == ["alien", "ann", "ann"]
    assert reviews.node_number("ann") == reviews.node_number("ann", "source") == 0
    assert reviews.node_number("ann", "target") == 5
    with pytest.raises(InputError, match=r"has no node 'alein'; did you mean 'alien'\?"):
        reviews.node_number("alein")
    with pytest.raises(InputError, match="no source 'brazil'"):
        reviews.node_number("brazil", "source")
    with pytest.raises(InputError, match=r"nodes are numbered from 0 to 5 \(got 6 to 6\)"):
        reviews.node_names([6])


def test_a_column_or_split_that_is_not_there_is_answered_with_the_nearest(full):
    with pytest.raises(
        InputError, match=r"edges\.parquet has no column 'star'; did you mean 'stars'"
    ):
        full.edges(["star"])
    with pytest.raises(InputError, match="has no split 'edges'; did you mean 'edge'"):
        full.split("edges")


def test_token_stores_are_found_by_name_and_fingerprint(full, tokenizer_folder):
    name = str(tokenizer_folder)
    trained = add_tokens(full, "train:40", progress=False)
    assert full.token_stores() == sorted([name, "train:40"])
    assert full.token_store(name).name == name
    assert full.token_store("train:40").folder == trained.folder
    assert full.token_store(trained.meta.fingerprint).folder == trained.folder
    assert full.tokens.name == full.token_stores()[0]
    with pytest.raises(
        InputError, match="is not tokenised with 'train:4'; did you mean 'train:40'"
    ):
        full.token_store("train:4")


def test_training_edges_alone_are_sampled_in_their_strata(full):
    training = np.flatnonzero(full.split("link") == 0)
    for strata, groups in (
        ("none", np.zeros(8, int)),
        ("positive", np.where(full.is_positive, 0, 1)),
        ("edge_type", full.edge_types),
    ):
        adjacency = full.training_adjacency("link", strata=strata)
        for node in range(full.num_nodes):
            around = [e for e in training if node in (full.src[e], full.dst[e])]
            expected = sorted(around, key=lambda e, groups=groups: (groups[e], e))
            assert adjacency.edges_of(node).tolist() == expected
    assert full.sampler("link", [2, 2], strata="positive", seed=1) is not None
    with pytest.raises(
        InputError, match="strata 'sign' is unknown; available: none, positive, edge"
    ):
        full.training_adjacency("link", strata="sign")


def test_edge_types_that_are_not_there_are_missed(reviews):
    with pytest.raises(InputError, match="has no edge types"):
        reviews.training_adjacency("edge", strata="edge_type")
    assert (reviews.edge_types, reviews.times, reviews.weights) == (None, None, None)
    assert reviews.node_labels is None
    assert reviews.facts.times is None
    assert (reviews.num_sources, reviews.num_targets) == (3, 3)
