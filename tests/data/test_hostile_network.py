"""A stranger's network, with checksums that fit: every count and number is checked before use."""

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.prepare import prepare
from edgeformers.data.storage import fingerprint_folder, read_record, write_record
from edgeformers.errors import FormatError


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile") / "network"
    prepare("simulated", folder, num_edges=60, tokenizer="train:100", progress=False)
    return folder


@pytest.fixture
def network(original, tmp_path):
    return shutil.copytree(original, tmp_path / "network")


def renew(folder, **values):
    """Write checksums that fit the files, and other values of network.json."""
    record = read_record(folder / "network.json")
    del record["checksum"]
    prints = fingerprint_folder(folder)
    files = {name: prints[name] for name in record["files"]}
    write_record(folder / "network.json", {**record, "files": files, **values})


def use(folder):
    """Everything that training and the data card read."""
    graph = EdgeTextGraph.open(folder)
    graph.verify()
    arrays = (graph.src, graph.dst, graph.labels, graph.times, graph.adjacency, graph.splits)
    graph.texts([0, graph.num_edges - 1])
    graph.edges(), graph.nodes(), graph.node_labels, graph.node_index
    return arrays


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_nodes", 10**12),
        ("num_nodes", 3),
        ("num_edges", 10**12),
        ("num_edges", -1),
        ("num_sources", 10**6),
        ("num_edges", "60"),
        ("label_names", [["a"]]),
        ("label_names", []),
        ("node_label_names", ["only"]),
        ("splits", {"../../x": {"config": {"name": "../../x"}}}),
        ("splits", {"edge": 3}),
        ("files", {"src.npy": 3}),
        ("positive_labels", ["none of them"]),
        ("library_version", None),
    ],
)
def test_claims_of_the_metadata_are_checked(network, name, value):
    renew(network, **{name: value})
    with pytest.raises(FormatError, match="prepare the network again"):
        use(network)


@pytest.mark.parametrize("count", [3, 10**12, 10**39])
def test_a_wrong_number_of_nodes_is_rejected_before_anything_is_allocated(network, count):
    renew(network, num_nodes=count)
    with pytest.raises(FormatError):
        EdgeTextGraph.open(network).verify()


def test_files_outside_the_folder_are_not_read(network):
    files = read_record(network / "network.json")["files"]
    renew(network, files={**files, "../network/src.npy": files["src.npy"]})
    with pytest.raises(FormatError, match="outside"):
        use(network)


@pytest.mark.parametrize("name", ["src", "dst", "labels", "node_labels.codes", "adjacency.links"])
@pytest.mark.parametrize("value", [10**4, -2])
def test_numbers_out_of_range_are_rejected(network, name, value):
    path = network / f"{name}.npy"
    array = np.load(path)
    array.flat[3] = value
    np.save(path, array)
    renew(network)
    with pytest.raises(FormatError, match=rf"{name}\.npy"):
        use(network)


@pytest.mark.parametrize("name", ["adjacency.indptr", "node_labels.offsets"])
def test_offsets_that_fall_are_rejected(network, name):
    path = network / f"{name}.npy"
    np.save(path, np.load(path)[::-1])
    renew(network)
    with pytest.raises(FormatError, match=rf"{name}\.npy"):
        use(network)


@pytest.mark.parametrize("dtype", [np.float64, np.complex64, "S3", "datetime64[s]"])
def test_arrays_of_other_types_are_rejected(network, dtype):
    np.save(network / "src.npy", np.load(network / "src.npy").astype(dtype))
    renew(network)
    with pytest.raises(FormatError, match=r"src\.npy"):
        use(network)


@pytest.mark.parametrize("name", ["texts", "nodes", "edges"])
def test_tables_of_another_length_are_rejected(network, name):
    path = network / f"{name}.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    renew(network)
    with pytest.raises(FormatError, match=rf"{name}\.parquet"):
        use(network)


def test_a_large_sparse_array_is_not_read(network):
    path = network / "times.npy"
    with path.open("wb") as file:
        header = {"descr": "<i8", "fortran_order": False, "shape": (2**40,)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + 2**43)
    files = read_record(network / "network.json")["files"]
    files["times.npy"]["bytes"] = path.stat().st_size
    record = read_record(network / "network.json")
    del record["checksum"]
    write_record(network / "network.json", {**record, "files": files})
    with pytest.raises(FormatError, match=r"times\.npy"):
        use(network)


def change_tokens(network, **values):
    (folder,) = network.glob("tokens/*")
    record = read_record(folder / "tokens.json")
    del record["checksum"]
    record["meta"] |= values
    prints = fingerprint_folder(folder)
    record["files"] = {name: prints[name] for name in record["files"]}
    write_record(folder / "tokens.json", record)


def take_tokens(network):
    graph = EdgeTextGraph.open(network)
    graph.tokens.take(np.arange(graph.num_edges), 16)


@pytest.mark.parametrize(
    ("name", "value"),
    [("vocab_size", 10**9), ("vocab_size", "x"), ("prefix", [-3]), ("limit", None), ("more", 1)],
)
def test_claims_about_tokens_are_checked(network, name, value):
    change_tokens(network, **{name: value})
    with pytest.raises(FormatError, match="token"):
        take_tokens(network)


@pytest.mark.parametrize("name", ["ids", "offsets"])
def test_tokens_out_of_range_are_rejected(network, name):
    (path,) = network.glob(f"tokens/*/edges.{name}.npy")
    array = np.load(path)
    array[5] = 60_000
    np.save(path, array)
    change_tokens(network)
    with pytest.raises(FormatError, match=rf"edges\.{name}\.npy"):
        take_tokens(network)


def test_a_column_of_other_contents_is_rejected(network):
    path = network / "texts.parquet"
    pq.write_table(pa.table({"other": pa.array(range(60))}), path)
    renew(network)
    graph = EdgeTextGraph.open(network)
    with pytest.raises(FormatError, match=r"texts\.parquet"):
        list(graph.iter_texts())
