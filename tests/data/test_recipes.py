"""The recipes of the paper's datasets: their rules, their splits and their published counts."""

import json
from collections import Counter
from datetime import datetime

import numpy as np
import pytest

from edgeformers.data.recipes import join_texts, load_recipe, recipe_names
from edgeformers.data.splits import EdgeList, count_parts, make_split
from edgeformers.data.table import EdgeTable
from edgeformers.errors import InputError

NAMES = ["amazon-movie", "amazon-apps", "goodreads-crime", "goodreads-children", "stackoverflow"]


def splits(name):
    return {split.name: split for split in load_recipe(name).splits}


def comments(rows):
    """A table of (source, target, text, day) rows."""
    records = [
        {"source": s, "target": t, "text": text, "time": datetime(2020, 1, day)}
        for s, t, text, day in rows
    ]
    return EdgeTable.from_rows(lambda: records, fields=("time",), origin="rows", bipartite=True)


def test_there_are_five_recipes():
    assert recipe_names() == NAMES


def test_an_unknown_recipe_is_answered_with_the_closest_match():
    with pytest.raises(InputError, match="'amazon-apps'"):
        load_recipe("amazon-app")


@pytest.mark.parametrize("name", NAMES[:4])
def test_reviews_are_split_at_random_for_edges_and_per_source_for_links(name):
    edge, link = splits(name)["edge"], splits(name)["link"]
    assert (edge.how, edge.seed, edge.unseen) == ("random", 0, "keep")
    assert (link.how, link.unseen) == ("per_source", "drop_target")
    assert edge.fractions == link.fractions == (0.7, 0.1, 0.2)


def test_comments_are_split_by_time_within_each_post():
    assert list(splits("stackoverflow")) == ["link"]
    link = splits("stackoverflow")["link"]
    assert (link.how, link.unseen) == ("chronological_per_target", "drop_source")


@pytest.mark.parametrize(
    ("name", "positive", "source", "target"),
    [
        ("amazon-movie", ("5",), (8, 8), (10, 10)),
        ("amazon-apps", ("5",), (3, 3), (5, 5)),
        ("goodreads-crime", ("4", "5"), (8,), (10,)),
        ("goodreads-children", ("4", "5"), (6, 3), (4, 2)),
        ("stackoverflow", (), (2,), (5,)),
    ],
)
def test_positive_links_and_neighbors_are_the_published_ones(name, positive, source, target):
    recipe = load_recipe(name)
    assert recipe.positive_labels == positive
    assert set(positive) <= set(recipe.labels) or name == "stackoverflow"
    assert recipe.neighbors == {"source": source, "target": target}


@pytest.mark.parametrize("name", NAMES)
def test_published_counts_add_up(name):
    recipe = load_recipe(name)
    counts = {**recipe.near, **recipe.counts}
    edges = counts["edges"]
    labels = [counts[f"label:{label}"] for label in recipe.labels if f"label:{label}" in counts]
    assert not labels or sum(labels) == edges
    for split in ("edge", "link"):
        parts = [
            counts[f"{split}:{part}"]
            for part in ("train", "val", "test")
            if f"{split}:{part}" in counts
        ]
        assert not parts or sum(parts) == edges


@pytest.mark.parametrize(
    ("name", "splits"),
    [
        ("amazon-apps", ["link"]),
        ("goodreads-children", ["edge", "link"]),
        ("stackoverflow", ["link"]),
    ],
)
def test_split_sizes_determined_by_the_raw_file_are_checked(name, splits):
    recipe = load_recipe(name)
    for key in (f"{split}:{part}" for split in splits for part in ("train", "val", "test")):
        assert key not in recipe.near
        right = {"edges": recipe.counts["edges"], key: recipe.counts[key]}
        assert recipe.check(right) == []
        with pytest.raises(InputError, match=f"{key} should be {recipe.counts[key]:,} and is"):
            recipe.check({**right, key: recipe.counts[key] - 1})


def test_published_node_counts_are_sources_and_trained_targets():
    apps, children = load_recipe("amazon-apps"), load_recipe("goodreads-children")
    for recipe in (apps, children):
        assert recipe.near["nodes"] == recipe.counts["sources"] + recipe.near["link:train:targets"]
    posts = load_recipe("stackoverflow")
    assert posts.near["nodes"] == posts.near["link:train:sources"] + posts.counts["targets"]
    kept = (posts.near[key] for key in ("link:val:kept", "link:test:kept"))
    assert posts.near["link:kept"] == posts.counts["link:train"] + sum(kept)


def test_the_edge_split_has_the_published_sizes():
    recipe = load_recipe("goodreads-children")
    ends = np.zeros(recipe.counts["edges"], np.int32)
    codes = make_split(recipe.splits[0], EdgeList(src=ends, dst=ends, num_nodes=1))
    parts = {f"edge:{part}": count for part, count in count_parts(codes).items()}
    assert recipe.check({"edges": len(ends), **parts}) == []


def test_reviews_are_read_in_file_order_with_texts_on_one_line(tmp_path):
    reviews = [
        {"reviewerID": "Z", "asin": "B", "overall": 5.0, "unixReviewTime": 9, "reviewText": "a\nb"},
        {"reviewerID": "A", "asin": "B", "overall": 1.0, "unixReviewTime": 1, "reviewText": "c\td"},
    ]
    file = tmp_path / "reviews.json"
    file.write_text("".join(json.dumps(review) + "\n" for review in reviews))
    table = load_recipe("amazon-apps").read(file).to_arrow()
    assert table["source"].to_pylist() == ["Z", "A"]
    assert table["text"].to_pylist() == ["a b", "c d"]
    assert table["label"].to_pylist() == ["5", "1"]


def test_stackoverflow_keeps_busy_posts_and_joins_the_comments_of_a_user(tmp_path):
    lines = ["user_id,post_id,text,creation_date,score"]
    lines += [f"u{i},quiet,hm,2020-01-01 00:00:00 UTC,0" for i in range(9)]
    lines += ["u0,quiet,again,2020-01-02 00:00:00 UTC,0"]
    lines += [f'u{i},busy,"one\nline",2020-01-0{1 + i % 2} 00:00:00 UTC,0' for i in range(10)]
    lines += ["u1,busy,first,2020-01-01 00:00:00 UTC,0", ",busy,nobody,2020-01-01 00:00:00 UTC,0"]
    file = tmp_path / "comments.csv"
    file.write_text("\n".join(lines) + "\n")
    table = load_recipe("stackoverflow").read(file).to_arrow().to_pylist()
    assert Counter(row["target"] for row in table) == {"busy": 10}
    assert [row["source"] for row in table] == [f"u{i}" for i in range(10)]
    assert table[0]["text"] == "one line"
    assert table[1]["text"] == "first one line"
    assert table[1]["time"] == datetime(2020, 1, 1)


def test_joined_texts_are_in_time_order_at_the_first_row():
    table = comments(
        [("b", "p", "late", 9), ("a", "p", "only", 5), ("b", "p", "early", 2), ("a", "q", "x", 1)]
    )
    joined = join_texts(table, min_sources=2).to_arrow().to_pylist()
    assert joined == [
        {"source": "b", "target": "p", "text": "early late", "time": datetime(2020, 1, 2)},
        {"source": "a", "target": "p", "text": "only", "time": datetime(2020, 1, 5)},
    ]


def test_joining_equals_plain_python():
    draw = np.random.default_rng(0).integers
    rows = [(f"s{draw(9)}", f"t{draw(9)}", f"w{i}", int(draw(1, 29))) for i in range(100)]
    expected, commenters = {}, {}
    for s, t, text, day in rows:
        expected.setdefault((s, t), []).append((day, text))
        commenters.setdefault(t, set()).add(s)
    texts = [
        (s, t, " ".join(text for _, text in sorted(parts, key=lambda part: part[0])))
        for (s, t), parts in expected.items()
        if len(commenters[t]) > 6
    ]
    joined = join_texts(comments(rows), min_sources=7).to_arrow().to_pylist()
    assert 0 < len(texts) < len(expected)
    assert [(row["source"], row["target"], row["text"]) for row in joined] == texts


def test_errors_of_the_reader_pass_through_the_joining(tmp_path):
    file = tmp_path / "comments.csv"
    file.write_text("user_id,post_id,text,creation_date,score\nu,,t,2020-01-01,0\n")
    with pytest.raises(InputError, match=r"comments\.csv, line 2: column 'post_id' is empty"):
        load_recipe("stackoverflow").read(file).to_arrow()


def test_matching_counts_give_no_note():
    recipe = load_recipe("amazon-apps")
    assert recipe.check({"edges": 752_937, "targets": 13_209, "label:5": 386_637}) == []


def test_a_wrong_count_is_an_error():
    recipe = load_recipe("amazon-apps")
    with pytest.raises(InputError, match="label:5 should be 386,637 and is 386,636"):
        recipe.check({"edges": 752_937, "label:5": 386_636})


def test_a_file_of_another_size_is_not_checked():
    (note,) = load_recipe("amazon-apps").check({"edges": 10, "label:5": 3})
    assert "were not checked" in note
    assert "752,937" in note
    assert "10 edges" in note
    (note,) = load_recipe("amazon-apps").check({"label:5": 3})
    assert "of unknown size" in note


def test_amazon_has_the_node_classes_of_the_paper():
    assert load_recipe("amazon-movie").node_classes == ("Movies", "TV")
    apps = load_recipe("amazon-apps").node_classes
    assert (len(set(apps)), apps[0], apps[-1]) == (26, "Books & Comics", "Weather")


def test_a_network_matches_a_recipe_if_it_has_all_its_counts():
    recipe = load_recipe("amazon-apps")
    counts = {**recipe.counts, **recipe.near}
    assert recipe.matches(counts)
    assert recipe.matches(counts | {"nodes": 100_000})  # another draw of the split
    assert not recipe.matches(counts | {"nodes": 90_000})
    assert not recipe.matches(counts | {"label:1": 78_714})
    assert not recipe.matches({key: n for key, n in counts.items() if key != "link:train"})


def test_counts_that_depend_on_the_draw_are_noted():
    recipe = load_recipe("goodreads-children")
    assert recipe.check({"edges": 734_640, "link:val:kept": 60_323}) == []
    notes = recipe.check({"edges": 734_640, "link:val:kept": 60_300, "link:test:kept": 182_000})
    assert len(notes) == 2
    assert "link:val:kept is 60,300; published for another draw" in notes[0]
    assert notes[0].endswith("60,323")
    assert notes[1].endswith("about 182 k")
