import gzip
import json
from dataclasses import replace

import pandas as pd
import pyarrow.parquet as pq
import pytest

from edgeformers.data.network import PrepareConfig
from edgeformers.data.prepare import NodeSource, open_edges, prepare
from edgeformers.data.recipes import load_recipe
from edgeformers.data.splits import SplitConfig
from edgeformers.errors import InputError

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
    nodes = pq.read_table(tmp_path / "net" / "nodes.parquet")
    assert nodes.column(0).to_pylist() == ["007", "nan", "x", " y"]


def test_raw_reviews_are_recognised_without_naming_columns(amazon, metadata, tmp_path):
    nodes = [NodeSource(path=str(metadata), columns={})]
    graph = prepare(str(amazon), tmp_path / "net", nodes=nodes, config=PLAIN)
    assert graph.label_names == ["1", "2", "3", "4", "5"]
    assert (graph.num_edges, graph.num_sources, graph.num_targets) == (9, 4, 3)
    assert "kind 1" in graph.meta.node_label_names


def test_named_columns_win_over_a_recognised_format(amazon):
    table = open_edges(amazon, source="asin", target="reviewerID", text="reviewText")
    assert table.to_arrow().column("source").to_pylist()[:3] == ["a0", "a1", "a2"]


def test_columns_beside_a_recognised_format_are_not_passed_over(amazon):
    with pytest.raises(InputError, match="recognised as amazon-reviews, has columns of its own"):
        open_edges(amazon, label="overall")
    with pytest.raises(InputError, match="the format amazon-reviews has columns of its own"):
        open_edges(amazon, format="amazon-reviews", keep=["verified"])


def test_metadata_given_as_edges_is_told_where_it_belongs(metadata):
    with pytest.raises(InputError, match="amazon-metadata, which tells of nodes; give it with"):
        open_edges(metadata)


def test_a_table_of_nodes_may_be_a_glob(amazon, metadata, tmp_path):
    nodes = [NodeSource(path=str(tmp_path / "met*.json"), columns={})]
    graph = prepare(str(amazon), tmp_path / "net", nodes=nodes, config=PLAIN)
    assert "kind 1" in graph.meta.node_label_names


@pytest.mark.parametrize("tokenizer", ["minlm", "train:many", "nope"])
def test_a_tokenizer_is_tried_before_the_edges_are_read(tmp_path, tokenizer, monkeypatch):
    def fail(name):
        raise InputError(f"no tokenizer '{name}'")

    monkeypatch.setattr("edgeformers.data.tokenize.load_tokenizer", fail)
    config = PrepareConfig(tokenizer=tokenizer, progress=False)
    with pytest.raises(InputError, match=r"tokenizer|vocabulary"):
        prepare(tmp_path / "missing.csv", tmp_path / "net", config=config)
    assert not (tmp_path / "net").exists()


def test_a_recipe_takes_no_columns_of_the_user(amazon, tmp_path):
    with pytest.raises(InputError, match="the dataset amazon-apps has columns of its own; leave"):
        prepare(["amazon-apps", amazon], tmp_path / "net", config=PLAIN, label="overall")


def test_a_recipe_of_the_paper_is_prepared_from_its_raw_file(amazon, tmp_path):
    graph = prepare(["amazon-apps", str(amazon)], tmp_path / "net", config=PLAIN)
    assert graph.meta.positive_labels == ["5"]
    assert sorted(graph.meta.splits) == ["edge", "link"]
    assert any("published counts were not checked" in note for note in graph.notes)


def test_published_sizes_of_splits_are_not_asked_of_splits_of_your_own(
    amazon, tmp_path, monkeypatch
):
    edges = open_edges(amazon).to_arrow().num_rows
    counts = {"edges": edges, "link:train": edges + 1}
    recipe = replace(load_recipe("amazon-apps"), counts=counts, near={})
    monkeypatch.setattr("edgeformers.data.prepare.load_recipe", lambda _: recipe)
    data = ["amazon-apps", str(amazon)]
    with pytest.raises(InputError, match="link:train should be"):
        prepare(data, tmp_path / "net", config=PLAIN)
    own = replace(PLAIN, splits=[SplitConfig.parse("link=random")])
    assert prepare(data, tmp_path / "net", config=own).meta.splits.keys() == {"link"}


def test_splits_by_kept_columns_are_taken_as_given(tmp_path):
    frame = pd.DataFrame(
        {"source": list("abcd"), "target": list("wxyz"), "text": list("1234")}
        | {"mine": ["train", "train", "val", "test"]}
    )
    config = PrepareConfig(
        splits=[SplitConfig(name="edge", how="column", column="mine")],
        tokenizer=None,
        progress=False,
    )
    graph = prepare(frame, tmp_path / "net", config=config, keep=["mine"])
    assert graph.split("edge").tolist() == [0, 0, 1, 2]


def test_a_failed_preparation_leaves_nothing_behind(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("source,target,text\n" + "a,b,c\n" * 70_000 + "a,b\n")
    with pytest.raises(InputError, match="line 70002: 2 fields where the header has 3"):
        prepare(path, tmp_path / "deep" / "net", config=PLAIN)
    assert not list(tmp_path.rglob("*net*"))
