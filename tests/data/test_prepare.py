"""`prepare` accepts tables, raw dumps and datasets, and rejects what it cannot use."""

import gzip
import inspect
import json
import time
from contextlib import suppress
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from edgeformers.data.network import PrepareConfig
from edgeformers.data.prepare import PrepareOptions, open_edges, prepare
from edgeformers.data.readers.tables import read_edges, read_nodes
from edgeformers.data.recipes import load_recipe
from edgeformers.data.splits import SplitConfig
from edgeformers.data.table import EdgeTable, edge_schema
from edgeformers.errors import ConfigError, FormatError, InputError
from edgeformers.experiments.node_classification import find_labels

PLAIN = PrepareConfig(tokenizer=None, progress=False)


def review(i):
    return {
        "reviewerID": f"r{i % 4}",
        "asin": f"a{i % 3}",
        "overall": 1.0 + i % 5,
        "reviewText": f"review {i}",
        "unixReviewTime": 1_500_000_000 + i,
    }


@pytest.fixture
def amazon(tmp_path):
    path = tmp_path / "reviews.json.gz"
    path.write_bytes(
        gzip.compress("".join(json.dumps(review(i)) + "\n" for i in range(9)).encode())
    )
    return path


@pytest.fixture
def metadata(tmp_path):
    path = tmp_path / "meta.json"
    items = ({"asin": f"a{i}", "category": ["all", f"kind {i}"]} for i in range(3))
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return path


def test_a_frame_becomes_a_network(tmp_path):
    frame = pd.DataFrame(
        {"who": ["007", "nan", "007"], "what": ["x", "x", " y"], "text": ["a", "", "b"]}
    )
    graph = prepare(frame, tmp_path / "net", config=PLAIN, source="who", target="what")
    assert (graph.num_edges, graph.num_sources, graph.num_targets) == (3, 2, 2)
    assert graph.src.tolist() == [0, 1, 0]
    assert graph.node_names(range(4)) == ["007", "nan", "x", " y"]


FRAME = pd.DataFrame({
    "user": ["a", "b", "a", "b"],
    "item": ["x", "x", "y", "y"],
    "review": ["1", "2", "3", "2"],
    "stars": [5, 4, 5, 1],
    "fold": ["train", "train", "val", "test"],
})  # fmt: skip
COLUMNS = {"source": "user", "target": "item", "text": "review", "label": "stars"}


@pytest.fixture
def table(tmp_path):
    """Makes the same edges in every form that `read_edges` accepts, and two others."""
    FRAME.iloc[:2].to_csv(tmp_path / "part-1.csv", index=False)
    FRAME.iloc[2:].to_csv(tmp_path / "part-2.csv", index=False)
    paths = [tmp_path / "part-1.csv", str(tmp_path / "part-2.csv")]
    return {
        "paths": paths,
        "glob": str(tmp_path / "part-*.csv"),
        "pandas": FRAME,
        "polars": pl.from_pandas(FRAME),
        "polars-lazy": pl.from_pandas(FRAME).lazy(),
        "pyarrow": pl.from_pandas(FRAME).to_arrow(),
        "EdgeTable": read_edges(FRAME, **COLUMNS),
    }


@pytest.mark.parametrize(
    "form", ["paths", "glob", "pandas", "polars", "polars-lazy", "pyarrow", "EdgeTable"]
)
def test_every_form_of_a_table_is_accepted(form, table, tmp_path):
    columns = {} if form == "EdgeTable" else COLUMNS
    graph = prepare(table[form], tmp_path / "net", config=PLAIN, **columns)
    assert graph.texts(range(4)) == ["1", "2", "3", "2"]
    assert graph.label_names == ["1", "4", "5"]


def test_settings_are_keyword_arguments_that_override_the_config(tmp_path):
    graph = prepare(
        FRAME,
        tmp_path / "net",
        **COLUMNS,
        config=PrepareConfig(tokenizer="nope", progress=False, min_degree=3, notes=["a note"]),
        splits=["mine=column:fold", SplitConfig(name="cold", how="cold_source")],
        tokenizer=None,
        positive_labels=["5"],
        min_degree=2,
        bipartite=False,
        directed=False,
        keep=["fold"],
    )
    assert set(graph.splits) == {"mine", "cold"}
    assert graph.meta.positive_labels == ["5"]
    assert (graph.is_bipartite, graph.is_directed, graph.token_stores()) == (False, False, [])
    assert graph.adjacency.degrees().min() == 2
    assert graph.notes[0] == "a note"


def test_one_split_or_label_needs_no_list(tmp_path):
    options = {"splits": "random+seed-1", "positive_labels": "5", "tokenizer": None}
    graph = prepare(FRAME, tmp_path / "net", **COLUMNS, **options, progress=False)
    assert (list(graph.splits), graph.meta.positive_labels) == (["random"], ["5"])


@pytest.mark.parametrize(
    ("argument", "match"),
    [("lable", "'label'"), ("tokeniser", "'tokenizer'"), ("xyzzy", "min_degree")],
)
def test_an_unknown_argument_is_answered_with_the_closest_match(argument, match, tmp_path):
    with pytest.raises(ConfigError, match=match):
        prepare(FRAME, tmp_path / "net", **{argument: "x"})


def test_every_argument_of_read_edges_is_accepted():
    known = PrepareOptions.__annotations__.keys() | inspect.signature(prepare).parameters.keys()
    assert inspect.signature(read_edges).parameters.keys() <= known
    settings = {field.name for field in fields(PrepareConfig)}
    assert settings - known == {"neighbors", "notes", "check", "complete"}


@pytest.mark.parametrize(
    "data", [None, 7, np.zeros((2, 3)), [1, 2], [FRAME], {"source": []}, iter(["a.csv"])]
)
def test_other_types_are_rejected(data, tmp_path):
    with pytest.raises(InputError, match="frames"):
        prepare(data, tmp_path / "net")


def test_arguments_without_effect_are_rejected(tmp_path):
    with pytest.raises(InputError, match="label"):
        prepare(read_edges(FRAME, **COLUMNS), tmp_path / "net", label="stars", tokenizer=None)
    with pytest.raises(InputError, match="bipartite"):
        prepare("simulated", tmp_path / "net", bipartite=False, tokenizer=None)
    with pytest.raises(InputError, match="num_edges"):
        prepare(FRAME, tmp_path / "net", **COLUMNS, num_edges=3, tokenizer=None)


def test_node_tables_may_be_frames_or_read_before(tmp_path):
    frame = pd.DataFrame({"id": ["x", "y"], "text": ["tent", "lamp"], "kind": ["a|b", "a"]})
    named = read_nodes(frame, labels="kind", label_separator="|")
    for nodes, labels in ((named, ["a", "b"]), ([frame], [])):
        graph = prepare(
            FRAME, tmp_path / "net", **COLUMNS, nodes=nodes, config=PLAIN, overwrite=True
        )
        assert graph.node_label_names == labels


def test_raw_reviews_are_recognized_without_naming_columns(amazon, metadata, tmp_path):
    graph = prepare(str(amazon), tmp_path / "net", nodes=metadata, config=PLAIN)
    assert graph.label_names == ["1", "2", "3", "4", "5"]
    assert (graph.num_edges, graph.num_sources, graph.num_targets) == (9, 4, 3)
    assert "kind 1" in graph.meta.node_label_names


def test_named_columns_override_a_recognized_format(amazon):
    table = open_edges(amazon, source="asin", target="reviewerID", text="reviewText")
    assert table.to_arrow().column("source").to_pylist()[:3] == ["a0", "a1", "a2"]


def test_columns_of_a_raw_format_cannot_be_named(amazon):
    with pytest.raises(InputError, match="label"):
        open_edges(amazon, label="overall")
    with pytest.raises(InputError, match="keep"):
        open_edges(amazon, format="amazon-reviews", keep=["verified"])


def test_node_metadata_are_not_edges(metadata):
    with pytest.raises(InputError, match="`nodes="):
        open_edges(metadata)


def test_a_node_table_may_be_a_glob(amazon, metadata, tmp_path):
    graph = prepare(str(amazon), tmp_path / "net", nodes=[tmp_path / "met*.json"], config=PLAIN)
    assert "kind 1" in graph.meta.node_label_names


@pytest.mark.parametrize("tokenizer", ["minlm", "train:many", "nope"])
def test_the_tokenizer_is_checked_before_edges_are_read(tmp_path, tokenizer, monkeypatch):
    def fail(name):
        raise InputError(f"no tokenizer '{name}'")

    monkeypatch.setattr("edgeformers.data.tokenize.load_tokenizer", fail)
    config = PrepareConfig(tokenizer=tokenizer, progress=False)
    with pytest.raises(InputError, match=r"tokenizer|vocabulary"):
        prepare(tmp_path / "missing.csv", tmp_path / "net", config=config)
    assert not (tmp_path / "net").exists()


def test_columns_of_a_recipe_cannot_be_named(amazon, tmp_path):
    with pytest.raises(InputError, match="label"):
        prepare(["amazon-apps", amazon], tmp_path / "net", config=PLAIN, label="overall")


def test_a_recipe_of_the_paper_is_prepared_from_its_raw_file(amazon, tmp_path):
    graph = prepare(["amazon-apps", str(amazon)], tmp_path / "net", config=PLAIN)
    assert graph.meta.positive_labels == ["5"]
    assert sorted(graph.meta.splits) == ["edge", "link"]
    assert any("published counts were not checked" in note for note in graph.notes)


def test_a_recipe_takes_its_node_classes_from_the_metadata(amazon, tmp_path):
    paths = {
        "a0": [["Apps for Android", "Games", "Sports"]],
        "a1": [["Apps for Android", "News &amp; Magazines"], ["Apps for Android", "Sports"]],
        "a2": [["Appstore"]],
    }
    items = ({"asin": asin, "categories": path, "title": "An app"} for asin, path in paths.items())
    metadata = tmp_path / "meta.json"
    metadata.write_text("".join(f"{item!r}\n" for item in items))
    data = ["amazon-apps", str(amazon)]
    graph = prepare(data, tmp_path / "net", nodes=str(metadata), config=PLAIN)
    labels = find_labels(graph)
    assert graph.node_names(labels.nodes) == ["a0", "a1"]
    assert labels.names == ["Games", "News & Magazines", "Sports"]
    assert labels.labels.tolist() == [[True, False, False], [False, True, True]]
    assert not graph.meta.has_node_texts


def test_a_recipe_takes_labels_from_any_node_table(amazon, tmp_path):
    frame = pd.DataFrame({"item": ["a0", "a1"], "kinds": ["x|y", "y"]})
    nodes = read_nodes(frame, id="item", labels="kinds", label_separator="|", side="target")
    graph = prepare(["amazon-apps", str(amazon)], tmp_path / "net", nodes=nodes, config=PLAIN)
    assert find_labels(graph).labels.tolist() == [[True, True], [False, True]]


def test_published_split_sizes_are_not_checked_for_other_splits(amazon, tmp_path, monkeypatch):
    edges = open_edges(amazon).to_arrow().num_rows
    counts = {"edges": edges, "link:train": edges + 1}
    recipe = replace(load_recipe("amazon-apps"), counts=counts, near={})
    monkeypatch.setattr("edgeformers.data.prepare.load_recipe", lambda _: recipe)
    data = ["amazon-apps", str(amazon)]
    with pytest.raises(InputError, match="link:train should be"):
        prepare(data, tmp_path / "net", config=PLAIN)
    own = replace(PLAIN, splits=[SplitConfig.parse("link=random")])
    assert prepare(data, tmp_path / "net", config=own).meta.splits.keys() == {"link"}


def test_a_kept_column_can_be_a_split(tmp_path):
    frame = pd.DataFrame(
        {"source": list("abcd"), "target": list("wxyz"), "text": list("1234")}
        | {"mine": ["train", "train", "val", "test"]}
    )
    graph = prepare(frame, tmp_path / "net", splits="edge=column:mine", config=PLAIN, keep=["mine"])
    assert graph.split("edge").tolist() == [0, 0, 1, 2]


def test_a_failed_preparation_leaves_nothing_behind(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("source,target,text\n" + "a,b,c\n" * 70_000 + "a,b\n")
    with pytest.raises(InputError, match="line 70002"):
        prepare(path, tmp_path / "deep" / "net", config=PLAIN)
    assert not list(tmp_path.rglob("*net*"))


@pytest.mark.parametrize(
    "arguments",
    [
        {"source": 5},
        {"label": np.array(["a", "b"])},
        {"min_degree": "3"},
        {"keep": "label"},
        {"splits": 1.5},
        {"splits": [None]},
        {"label_kind": []},
    ],
)
def test_arguments_of_other_types_are_rejected(arguments, tmp_path):
    frame = pd.DataFrame({"source": ["a"], "target": ["b"], "text": ["c"]})
    with pytest.raises(ConfigError, match=f"{next(iter(arguments))}="):
        prepare(frame, tmp_path / "net", tokenizer=None, **arguments)


def test_classes_may_be_numbers_or_an_array(tmp_path):
    frame = pd.DataFrame({"source": ["a"], "target": ["b"], "text": ["c"], "label": ["1"]})
    for at, classes in enumerate(([1, 2], np.array([1, 2]))):
        graph = prepare(frame, tmp_path / f"net{at}", label="label", classes=classes, config=PLAIN)
        assert graph.label_names == ["1"]


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, "~nobody-here/x.csv"])
def test_a_path_that_is_none_is_rejected(path, tmp_path):
    with pytest.raises(InputError):
        prepare(path, tmp_path / "net")


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1.5], pa.float16()),
        pa.array([float("inf")], pa.float32()),
        pa.array([1], pa.timestamp("us", "No/Where")),
        pa.array([2**62], pa.date64()),
    ],
    ids=lambda column: str(column.type),
)
def test_odd_types_of_ids_are_read_or_rejected(column, tmp_path):
    table = pa.table({"source": column, "target": ["b"], "text": ["c"]})
    with suppress(InputError):
        assert prepare(table, tmp_path / "net", config=PLAIN).num_edges == 1


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"source": [10**30, 1], "target": "b", "text": "c"}),
        pd.DataFrame({"source": pd.arrays.SparseArray([1, 0]), "target": "b", "text": "c"}),
        pl.DataFrame({"source": ["a"], "\0": ["b"]}),
        pl.LazyFrame({"source": ["a"]}).filter(pl.col("gone") == 1),
    ],
    ids=["large", "sparse", "nul", "lazy"],
)
def test_a_frame_that_arrow_cannot_read_is_rejected(frame, tmp_path):
    with pytest.raises(InputError, match="data frame"):
        prepare(frame, tmp_path / "net")


@pytest.mark.parametrize(
    "batches",
    [[None], [["a"]], [pa.record_batch({"source": ["a"]})]],
    ids=["none", "list", "columns"],
)
def test_batches_of_an_edge_table_must_have_its_schema(batches, tmp_path):
    schema = edge_schema(())
    table = EdgeTable(schema=schema, open=lambda: iter(batches), origin="mine", bipartite=True)
    with pytest.raises(InputError, match="mine"):
        prepare(table, tmp_path / "net", config=PLAIN)


@pytest.mark.parametrize("schema", [{"source": "a"}, {"source": 1, "target": "b", "text": "c"}])
def test_an_edge_table_needs_canonical_columns(schema, tmp_path):
    batch = pa.RecordBatch.from_pylist([schema])
    table = EdgeTable(
        schema=batch.schema, open=lambda: iter([batch]), origin="mine", bipartite=True
    )
    with pytest.raises(InputError, match="mine"):
        prepare(table, tmp_path / "net", config=PLAIN)


def test_a_raw_format_is_read_from_files_only(tmp_path):
    with pytest.raises(InputError, match="files"):
        prepare(pd.DataFrame({"source": ["a"]}), tmp_path / "net", format="amazon-reviews")


def test_a_long_file_without_records_is_rejected_at_once(tmp_path):
    path = tmp_path / "table.json"
    path.write_text("x\n" * 500_000)
    started = time.monotonic()
    with pytest.raises(InputError, match="line 1"):
        prepare(path, tmp_path / "net")
    assert time.monotonic() - started < 5


def test_an_unknown_encoding_of_xml_is_rejected(tmp_path):
    path = tmp_path / "Posts.xml"
    path.write_text('<?xml version="1.0" encoding="utf-8f-8"?>\n<posts></posts>')
    with pytest.raises(FormatError, match="encoding"):
        prepare(path, tmp_path / "net")
