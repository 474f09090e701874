"""Opening a network reads only its metadata, and damage is detected."""

import json
import os
import pickle
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig
from edgeformers.data.splits import SplitConfig
from edgeformers.data.storage import read_checked_record, write_record
from edgeformers.data.tokenize import add_tokens
from edgeformers.errors import FormatError, InputError

SPLITS = [SplitConfig(name="edge", how="random"), SplitConfig(name="link", how="per_source")]


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def full(make_network, make_nodes, tokenizer_folder):
    """A network with every optional array and column."""
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
            os.truncate(path, size)  # zeros of the same length
    graph = EdgeTextGraph.open(full.path)
    assert repr(graph) == "EdgeTextGraph(network: 7 nodes, 8 edges, bipartite)"


def test_arrays_are_mapped_when_first_used(full):
    graph = EdgeTextGraph.open(full.path)
    opened = vars(graph).copy()
    arrays = [graph.src, graph.dst, graph.labels, graph.times, graph.weights, graph.edge_types]
    arrays += [graph.text_hashes, graph.text_lengths, *graph.splits.values(), *graph.node_labels]
    arrays += [graph.adjacency.indptr, graph.adjacency.links]
    arrays += [graph.tokens.ids, graph.tokens.offsets]
    assert not {"src", "labels", "splits", "adjacency"} & opened.keys()
    assert all(isinstance(array, np.memmap) for array in arrays)
    assert not any(array.flags.writeable for array in arrays)


def test_a_pickled_network_maps_its_arrays_again(full):
    full.texts([0])
    assert len(full.src) + len(full.labels) + len(full.adjacency.edge_ids) == 32
    sent = pickle.dumps(full)
    copy = pickle.loads(sent)
    assert vars(copy).keys() == vars(EdgeTextGraph.open(full.path)).keys()
    assert copy.texts([3]) == full.texts([3])


def test_every_flipped_byte_is_detected(full):
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
        with pytest.raises(FormatError, match=rf"{path.name} {words}"):
            EdgeTextGraph.open(full.path)
        path.write_bytes(content)


def test_swapped_files_are_detected(full):
    src, dst = full.path / "src.npy", full.path / "dst.npy"
    src.rename(full.path / "x")
    dst.rename(src)
    (full.path / "x").rename(dst)
    with pytest.raises(FormatError, match=r"dst\.npy is damaged"):
        EdgeTextGraph.open(full.path, verify=True)


def rewrite(graph, **changes):
    path = graph.path / "network.json"
    write_record(path, read_checked_record(path) | changes)


def test_another_schema_version_is_named(full):
    rewrite(full, schema_version=99)
    with pytest.raises(FormatError, match="schema version 99"):
        EdgeTextGraph.open(full.path)


@pytest.mark.parametrize("content", ['{"name": "my-npm-package"}', '{"format": "other"}', "{}"])
def test_a_foreign_record_is_named(content, full):
    (full.path / "network.json").write_text(content)
    with pytest.raises(FormatError, match=r"network\.json"):
        EdgeTextGraph.open(full.path)


@pytest.mark.parametrize("content", ["", "not json", "[1]", '{"format": '])
def test_a_damaged_record_is_named(content, full):
    (full.path / "network.json").write_text(content)
    with pytest.raises(FormatError, match=r"network\.json is damaged"):
        EdgeTextGraph.open(full.path)


def test_metadata_edited_by_hand_are_rejected(full):
    path = full.path / "network.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps(values | {"num_nodes": 8}, indent=1, ensure_ascii=False) + "\n")
    with pytest.raises(FormatError, match=r"network\.json is damaged"):
        EdgeTextGraph.open(full.path)


def test_another_folder_is_not_a_network(tmp_path):
    for path in (tmp_path, tmp_path / "gone"):
        with pytest.raises(FormatError, match=r"network\.json"):
            EdgeTextGraph.open(path)


def zero(path):
    """Overwrite with zeros."""
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
def test_damage_found_while_reading_is_named(name, read, full):
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
    with pytest.raises(FormatError, match=r"src\.npy has 5 rows"):
        _ = EdgeTextGraph(full.path, full.meta).src


def test_an_incomplete_token_store_is_named(full):
    store = full.tokens.folder
    (store / "edges.ids.npy").unlink()
    with pytest.raises(FormatError, match=r"edges\.ids\.npy is missing"):
        _ = full.tokens
    (store / "tokens.json").unlink()
    with pytest.raises(FormatError, match=r"tokens\.json"):
        EdgeTextGraph.open(full.path, verify=True)


def test_texts_are_returned_in_the_requested_order(reviews):
    assert reviews.texts([4, 0, 4, 2]) == ["badly", "A good film.", "badly", ""]
    assert reviews.texts([]) == []
    with pytest.raises(InputError, match="got -1 to 5"):
        reviews.texts([-1, 5])


def test_the_closest_column_or_split_is_suggested(full):
    with pytest.raises(InputError, match=r"edges\.parquet .*'stars'"):
        full.edges(["star"])
    with pytest.raises(InputError, match="'edge'"):
        full.split("edges")


def test_token_stores_are_found_by_name_and_fingerprint(full, tokenizer_folder):
    name = str(tokenizer_folder)
    trained = add_tokens(full, "train:40", progress=False)
    assert full.token_stores() == sorted([name, "train:40"])
    assert full.token_store(name).name == name
    assert full.token_store("train:40").folder == trained.folder
    assert full.token_store(trained.meta.fingerprint).folder == trained.folder
    assert full.tokens.name == full.token_stores()[0]
    with pytest.raises(InputError, match="'train:40'"):
        full.token_store("train:4")


def test_optional_arrays_may_be_absent(reviews):
    with pytest.raises(InputError, match="has no edge types"):
        reviews.training_adjacency("edge", strata="edge_type")
    assert (reviews.edge_types, reviews.times, reviews.weights) == (None, None, None)
    assert reviews.node_labels is None
    assert reviews.edge_list.times is None
    assert (reviews.num_sources, reviews.num_targets) == (3, 3)


@pytest.mark.parametrize("counts", [{"num_nodes": 10**9}, {"num_edges": 10**30}])
def test_counts_that_the_arrays_do_not_have_are_rejected(reviews, counts):
    graph = EdgeTextGraph(reviews.path, replace(reviews.meta, **counts))
    with pytest.raises(FormatError, match="rows"):
        graph.verify()
