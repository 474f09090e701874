"""The network on disk equals its table, is written atomically, and is reproducible."""

import subprocess
import sys
import textwrap
from dataclasses import replace
from datetime import datetime
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeformers import progress
from edgeformers.data import network
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.simulate import simulate
from edgeformers.data.splits import NO_TIME, SplitConfig
from edgeformers.data.table import EdgeTable, NodeTable
from edgeformers.errors import InputError
from tests.data.folders import contents

PLAIN = PrepareConfig(tokenizer=None, progress=False)


ids = st.text(max_size=3) | st.sampled_from(
    ["a", "b", "c", "A", "\u00e9", "e\u0301", "a\x00", "NULL"]
)
edge_rows = st.fixed_dictionaries(
    {
        "source": ids,
        "target": ids,
        "text": st.none() | st.text(max_size=8),
        "label": st.none() | st.sampled_from(["1", "2", "10"]),
        "time": st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)),
        "edge_type": st.none() | st.sampled_from(["likes", "knows"]),
        "weight": st.none() | st.floats(-1e6, 1e6, width=32),
        "Extra": st.none() | st.integers(-5, 5),
    }
)


@settings(max_examples=20)
@given(st.lists(edge_rows, min_size=1, max_size=9), st.booleans(), st.booleans())
def test_the_network_equals_its_table(tmp_path_factory, rows, bipartite, directed):
    table = EdgeTable.from_rows(
        lambda: rows,
        fields=["label", "time", "edge_type", "weight"],
        extra={"Extra": pa.int8()},
        origin="rows",
        bipartite=bipartite,
        directed=directed,
    )
    graph = write_network(table, tmp_path_factory.mktemp("n") / "net", config=PLAIN)
    assert (graph.num_edges, graph.is_bipartite, graph.is_directed) == (
        *(len(rows), bipartite, directed),
    )
    assert graph.node_names(graph.src) == [row["source"] for row in rows]
    assert graph.node_names(graph.dst) == [row["target"] for row in rows]
    keys = [
        (row[side], side if bipartite else None)
        for rows_of in ([(s, rows) for s in ("source", "target")] if bipartite else [(None, rows)])
        for row in rows_of[1]
        for side in ([rows_of[0]] if bipartite else ["source", "target"])
    ]
    nodes = graph.nodes(["id", "side"]).to_pylist()
    assert [(node["id"], node["side"]) for node in nodes] == list(dict.fromkeys(keys))
    texts = [row["text"] or "" for row in rows]
    assert graph.texts(range(len(rows))) == texts
    assert [text for chunk in graph.iter_texts() for text in chunk] == texts
    assert graph.text_lengths.tolist() == list(map(len, texts))
    equal = [a == b for a, b in product(texts, texts)]
    hashes = np.asarray(graph.text_hashes)
    assert (hashes[:, None] == hashes).ravel().tolist() == equal
    named = [*graph.label_names, None]
    assert [named[code] for code in graph.labels] == [row["label"] for row in rows]
    assert graph.label_names == sorted({row["label"] for row in rows} - {None}, key=int)
    types = [*graph.edge_type_names, None]
    assert [types[code] for code in graph.edge_types] == [row["edge_type"] for row in rows]
    times = [
        NO_TIME if r["time"] is None else np.datetime64(r["time"], "us").astype(int) for r in rows
    ]
    assert graph.times.tolist() == times
    weights = [np.nan if row["weight"] is None else row["weight"] for row in rows]
    assert np.array_equal(graph.weights, np.array(weights, np.float32), equal_nan=True)
    columns = ["label", "time", "edge_type", "weight", "Extra"]
    assert graph.edges(columns).to_pylist() == [
        {name: row[name] for name in columns} for row in rows
    ]
    ends = list(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))
    for node in range(graph.num_nodes):
        around = [(e, b if a == node else a) for e, (a, b) in enumerate(ends) if node in (a, b)]
        assert graph.adjacency.edges_of(node).tolist() == [e for e, _ in around]
        assert graph.adjacency.neighbors_of(node).tolist() == [other for _, other in around]


def test_a_simulated_network_equals_its_table_beyond_one_batch(tmp_path):
    simulation = simulate(num_edges=70_000, seed=3)
    graph = write_network(
        simulation.table, tmp_path / "net", nodes=[simulation.nodes], config=PLAIN
    )
    expected = simulation.table.to_arrow()
    chosen = [0, 16_383, 16_384, 65_535, 65_536, 69_999]
    assert graph.texts(chosen) == expected.column("text").take(pa.array(chosen)).to_pylist()
    assert graph.node_names(graph.src) == expected.column("source").to_pylist()
    assert graph.node_names(graph.dst) == expected.column("target").to_pylist()
    labels = np.array(graph.label_names)[graph.labels]
    assert labels.tolist() == expected.column("label").to_pylist()
    hidden = {row["id"]: row["labels"] for row in simulation.nodes.to_arrow().to_pylist()}
    offsets, codes = graph.node_labels
    for node in range(0, graph.num_nodes, 37):
        found = [graph.node_label_names[c] for c in codes[offsets[node] : offsets[node + 1]]]
        assert found == hidden[graph.node_names([node])[0]]


@pytest.mark.parametrize(("num_edges", "tokenizer"), [(70_000, None), (2_000, "train:200")])
def test_preparing_twice_gives_the_same_bytes(num_edges, tokenizer, tmp_path):
    simulation = simulate(num_edges=num_edges, seed=1)
    split = SplitConfig(name="new", how="per_source", unseen="drop", new_pairs=True)
    config = replace(PLAIN, tokenizer=tokenizer, splits=[split], positive_labels=["5"])
    for name in ("one", "two"):
        write_network(simulation.table, tmp_path / name, nodes=[simulation.nodes], config=config)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_the_batches_of_the_reader_do_not_matter(tmp_path):
    simulation = simulate(num_edges=3_000, seed=1)
    small = replace(simulation.table, open=lambda: simulation.stream(7))
    write_network(simulation.table, tmp_path / "one", config=PLAIN)
    write_network(small, tmp_path / "two", config=PLAIN)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


FORKING = """
    import os, signal, sys, time
    from edgeformers.files import FolderExistsError
    from edgeformers.locks import BusyError
    from edgeformers.data.network import PrepareConfig, write_network
    from edgeformers.data.simulate import simulate

    num_edges, tokenizer, *folders = sys.argv[1:]
    table = simulate(num_edges=int(num_edges), seed=0).table
    config = PrepareConfig(tokenizer=tokenizer, progress=False)

    def start(out):  # no thread runs yet in this process, so that it can fork
        child = os.fork()
        if child:
            return child
        try:
            write_network(table, out, config=config)
        except (BusyError, FolderExistsError):
            os._exit(3)
        os._exit(0)
"""


def run_forking(script, *arguments):
    code = textwrap.dedent(FORKING) + textwrap.dedent(script)
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_a_killed_run_leaves_no_partial_network_and_can_be_repeated(tmp_path, tokenizer_folder):
    script = """
        complete, out = folders
        began = time.monotonic()
        os.waitpid(start(complete), 0)
        duration = time.monotonic() - began
        for share in (0.1, 0.4, 0.7, 0.95):
            child = start(out)
            time.sleep(duration * share)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            left = [name for name in os.listdir(os.path.dirname(out)) if ".out.part" in name]
            print(os.path.exists(out), len(left))
        print(os.waitstatus_to_exitcode(os.waitpid(start(out), 0)[1]))
    """
    complete, out = tmp_path / "complete", tmp_path / "out"
    *killed, code = run_forking(script, 15_000, tokenizer_folder, complete, out)
    pairs = list(zip(killed[::2], killed[1::2], strict=True))
    assert ("False", "1") in pairs  # some were killed while writing
    assert all(int(left) <= 1 for _, left in pairs)
    assert code == ("3" if pairs[-1][0] == "True" else "0")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backbone", "complete", "out"]
    assert contents(out) == contents(complete)
    EdgeTextGraph.open(out, verify=True)


def test_of_two_processes_preparing_at_once_one_is_rejected(tmp_path):
    script = """
        children = [start(folders[0]), start(folders[0])]
        print(*sorted(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
    """
    assert run_forking(script, 2_000, "train:100", tmp_path / "out") == ["0", "3"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    graph = EdgeTextGraph.open(tmp_path / "out", verify=True)
    assert graph.token_stores() == ["train:100"]


def test_label_sets_and_numeric_labels_round_trip(make_network):
    rows = [
        {"source": "a", "target": "b", "text": "", "label": label} for label in ("x;y", None, "y")
    ]
    sets = make_network(rows, label_kind="multi", label_separator=";", out="multi")
    assert sets.label_names == ["x", "y"]
    assert sets.labels.tolist() == [[True, True], [False, False], [False, True]]
    rows = [{**row, "label": label} for row, label in zip(rows, ("1", None, "2.5"), strict=True)]
    numbers = make_network(rows, label_kind="number", out="number")
    assert numbers.label_kind == "number"
    assert np.array_equal(numbers.labels, [1, np.nan, 2.5], equal_nan=True)


def test_positive_labels_mark_links(make_network):
    positive = replace(PLAIN, positive_labels=["5", "10"])
    assert make_network(config=positive).is_positive.tolist() == [True, False, False, True, True]
    assert make_network(out="all").is_positive.all()
    rows = [
        {"source": "a", "target": "b", "text": "", "label": label} for label in ("x|y", "z", None)
    ]
    sets = make_network(
        rows,
        out="multi",
        label_kind="multi",
        label_separator="|",
        config=replace(PLAIN, positive_labels=["x"]),
    )
    assert sets.is_positive.tolist() == [True, False, False]


def test_unknown_positive_labels_are_errors(make_network):
    with pytest.raises(InputError, match="'6'; available: 1, 5, 10"):
        make_network(config=replace(PLAIN, positive_labels=["6"]))
    rows = [{"source": "a", "target": "b", "text": ""}]
    with pytest.raises(InputError, match="`label="):
        make_network(rows, config=replace(PLAIN, positive_labels=["6"]))


def test_node_tables_are_joined(make_network, make_nodes):
    rows = [
        {"id": "alien", "side": "target", "labels": ["scifi", "horror"], "text": "In space"},
        {"id": "ann", "side": "source", "labels": ["critic"]},
        {"id": "zorro", "side": "target", "labels": ["lost"]},
    ]
    graph = make_network(nodes=[make_nodes(rows, extra={"Year": pa.int16()})])
    assert graph.node_label_names == ["critic", "horror", "scifi"]
    offsets, codes = graph.node_labels
    assert offsets.tolist() == [0, 1, 1, 1, 3, 3, 3]
    assert codes.tolist() == [0, 2, 1]
    assert [t for chunk in graph.iter_node_texts() for t in chunk] == [
        *("", "", ""),
        "In space",
        "",
        "",
    ]
    assert graph.nodes().column_names == ["id", "side", "labels", "text", "Year"]
    assert "1 of the 3 nodes in nodes.csv" in graph.notes[0]
    kept = make_network(
        nodes=[make_nodes(rows)], config=replace(PLAIN, keep_isolated=True), out="kept"
    )
    assert kept.node_names(range(kept.num_nodes)) == [
        *("ann", "bob", "cat", "alien", "brazil", "ann", "zorro")
    ]
    assert kept.adjacency.degrees().tolist() == [2, 2, 1, 3, 1, 1, 0]


def test_an_edge_without_source_or_target_is_an_error(make_network):
    rows = [{"source": "a", "target": "b", "text": ""}] * 2
    rows = [*rows, {"source": "a", "target": None, "text": ""}]
    with pytest.raises(InputError, match="edge 3: the target"):
        make_network(rows)


def test_an_empty_table_is_an_error(make_network, tmp_path):
    with pytest.raises(InputError, match="rows has no edges"):
        make_network([])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["src", "dst"])
def test_a_kept_column_cannot_have_a_reserved_name(name, make_network, tmp_path):
    rows = [{"source": "a", "target": "b", "text": "", name: 1}]
    with pytest.raises(InputError, match=f"'{name}'"):
        make_network(rows, extra={name: pa.int8()})


def test_column_names_may_differ_in_case_only(make_network):
    extra = {
        "Source": pa.string(),
        "row": pa.int8(),
        "file_row_number": pa.int8(),
        'a"b': pa.int8(),
    }
    row = {"Source": "S", "row": 1, "file_row_number": 2, 'a"b': 3}
    rows = [{"source": "a", "target": "b", "text": "", **row}]
    graph = make_network(rows, extra=extra)
    assert graph.edges(list(extra)).to_pylist() == [row]


def with_split(words, **row):
    return [{"source": "a", "target": "b", "text": "", "split": word, **row} for word in words]


def test_a_split_column_may_use_common_names(make_network):
    words = [
        "train",
        " Training ",
        "VAL",
        "dev",
        "valid",
        "validation",
        "test",
        "testing",
        "",
        None,
    ]
    graph = make_network(with_split([*words, "none"]))
    assert graph.splits.keys() == {"column"}
    assert graph.split("column").tolist() == [0, 0, 1, 1, 1, 1, 2, 2, 255, 255, 255]
    assert graph.meta.splits["column"]["counts"] == {"train": 2, "val": 4, "test": 2, "none": 3}


def test_several_columns_can_be_splits(make_network):
    rows = [
        {**row, "by_time": t} for row, t in zip(with_split("ab"), ("train", "test"), strict=True)
    ]
    splits = [
        SplitConfig(name="time", how="column", column="by_time"),
        SplitConfig(name="edge", how="random"),
    ]
    graph = make_network(rows, extra={"by_time": pa.string()}, config=replace(PLAIN, splits=splits))
    assert graph.split("time").tolist() == [0, 2]
    assert set(graph.splits) == {"time", "edge"}


def test_an_unknown_part_in_a_split_column_is_named(make_network, monkeypatch):
    monkeypatch.setattr(network, "BATCH_ROWS", 2)
    with pytest.raises(InputError, match="edge 4: column 'split': 'holdout'"):
        make_network(with_split(["train", "test", "val", "Holdout"]))


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        (["a=random", "a=per-source"], "'a'"),
        (["a=column:fold"], "`keep="),
        (["chronological"], "`time="),
    ],
)
def test_impossible_splits_are_rejected_before_reading(splits, message, tmp_path):
    def rows():
        raise AssertionError("read")

    table = EdgeTable.from_rows(rows, fields=(), origin="rows", bipartite=True)
    config = replace(PLAIN, splits=[SplitConfig.parse(split) for split in splits])
    with pytest.raises(InputError, match=message):
        write_network(table, tmp_path / "net", config=config)


def test_the_callers_check_can_reject_the_network(make_network, tmp_path):
    graph = make_network(config=replace(PLAIN, check=lambda g: [f"{g.name}: {g.num_edges} edges"]))
    assert EdgeTextGraph.open(graph.path, verify=True).notes == ["network: 5 edges"]

    def refuse(_):
        raise InputError("the counts differ")

    with pytest.raises(InputError, match="the counts differ"):
        make_network(config=replace(PLAIN, check=refuse), out="refused")
    assert [path.name for path in tmp_path.iterdir()] == ["network"]


def test_overwriting_replaces_everything(make_network):
    make_network()
    rows = [{"source": "x", "target": "y", "text": "new"}]
    graph = make_network(rows, overwrite=True)
    assert graph.texts([0]) == ["new"]
    assert graph.labels is None


def test_texts_are_read_from_several_row_groups(make_network, monkeypatch):
    rows = [{"source": "a", "target": "b", "text": f"{i} " * 50} for i in range(40)]
    monkeypatch.setattr(network, "TEXT_ROWS", 3)
    graph = make_network(rows)
    assert graph.texts([39, 0, 4, 39]) == [rows[i]["text"] for i in (39, 0, 4, 39)]
    for at in [*range(40), *range(40)]:  # more groups than are kept in memory
        assert graph.texts([at]) == [rows[at]["text"]]


def test_progress_is_shown(make_network, tokenizer_folder, capsys, monkeypatch):
    monkeypatch.setattr(progress, "LINE_EVERY", (0.0, 0.0))
    make_network(config=PrepareConfig(tokenizer=str(tokenizer_folder)))
    shown = capsys.readouterr().err
    assert "reading edges" in shown
    assert "tokenizing edges" in shown


def test_skipped_rows_are_kept_in_the_metadata(tmp_path, make_table):
    table = make_table([{"source": "a", "target": "b", "text": ""}])

    def batches():
        table.errors.mode = "skip"
        table.errors.report("edges.csv, line 2: odd")
        yield from table.open()

    graph = write_network(replace(table, open=batches), tmp_path / "net", config=PLAIN)
    assert graph.skipped == {"count": 1, "examples": ["edges.csv, line 2: odd"]}


def test_a_node_table_is_read_once(tmp_path, make_table):
    rows = ({"id": f"n{i}", "labels": [str(i % 3)]} for i in range(5))
    once = NodeTable.from_rows(lambda: rows, origin="once")  # can be read a single time
    edges = [{"source": f"n{i}", "target": f"n{i + 1}", "text": ""} for i in range(4)]
    table = make_table(edges, bipartite=False)
    graph = write_network(table, tmp_path / "net", nodes=[once], config=PLAIN)
    assert graph.node_labels[1].tolist() == [0, 1, 2, 0, 1]


def test_a_network_is_written_without_a_database(tmp_path, monkeypatch):
    for name in ("duckdb", "polars", "pydantic"):
        monkeypatch.setitem(sys.modules, name, None)
    simulation = simulate(num_edges=500, seed=1)
    graph = write_network(
        simulation.table, tmp_path / "net", nodes=[simulation.nodes], config=PLAIN
    )
    rows = simulation.table.to_arrow().to_pylist()
    assert graph.node_names(graph.src) == [row["source"] for row in rows]
    assert graph.node_names(graph.dst) == [row["target"] for row in rows]
    assert graph.texts(np.arange(500)) == [row["text"] for row in rows]
