import gzip
import json
from datetime import datetime

import pytest

from edgeformers.data.readers.amazon import read_amazon_metadata, read_amazon_reviews
from edgeformers.errors import InputError

OLD = [
    {"reviewerID": "A1", "asin": "B1", "overall": 5.0, "unixReviewTime": 1472688000},
    {"reviewerID": "A2", "asin": "B1", "reviewText": "ok", "overall": 3.0, "unixReviewTime": 0},
]
NEW = [
    {
        "user_id": "U1",
        "asin": "C-red",
        "parent_asin": "C",
        "title": "Short",
        "text": "fine\nthing",
        "rating": 1.0,
        "timestamp": 1588615855070,
    }
]


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_reviews_of_2014_and_2018_are_edges_with_integral_ratings_and_times(tmp_path):
    table = read_amazon_reviews(write_lines(tmp_path / "r.json", OLD))
    assert table.bipartite
    rows = table.to_arrow().to_pylist()
    assert rows == [
        {"source": "A1", "target": "B1", "text": "", "label": "5", "time": datetime(2016, 9, 1)},
        {"source": "A2", "target": "B1", "text": "ok", "label": "3", "time": datetime(1970, 1, 1)},
    ]


def test_only_a_trailing_zero_fraction_is_removed_from_ratings(tmp_path):
    records = [{**OLD[1], "overall": rating} for rating in (5, 5.0, 10, 2.5)]
    table = read_amazon_reviews(write_lines(tmp_path / "r.json", records))
    assert table.to_arrow()["label"].to_pylist() == ["5", "5", "10", "2.5"]


def test_reviews_of_2023_are_edges_to_the_product(tmp_path):
    packed = tmp_path / "r.jsonl.gz"
    packed.write_bytes(gzip.compress(json.dumps(NEW[0]).encode()))
    row = read_amazon_reviews(packed).to_arrow().to_pylist()[0]
    assert (row["source"], row["target"], row["label"]) == ("U1", "C", "1")
    assert row["text"] == "fine\nthing"
    assert row["time"] == datetime(2020, 5, 4, 18, 10, 55, 70000)


def test_a_table_of_reviews_can_be_read_twice(tmp_path):
    table = read_amazon_reviews(write_lines(tmp_path / "r.json", OLD))
    assert table.to_arrow().equals(table.to_arrow())


def test_another_file_is_rejected_with_its_keys(tmp_path):
    file = write_lines(tmp_path / "x.json", [{"critic": 1, "movie": 2}])
    with pytest.raises(InputError, match=r"x\.json: not Amazon reviews.*got critic, movie"):
        read_amazon_reviews(file)


def test_a_file_without_records_is_rejected(tmp_path):
    file = tmp_path / "x.json"
    file.write_text("hello\n[1]\n")
    with pytest.raises(InputError, match=r"x\.json: not Amazon reviews"):
        read_amazon_reviews(file)


def test_metadata_among_the_reviews_is_reported_as_nodes(tmp_path):
    write_lines(tmp_path / "Books.json", OLD)
    write_lines(tmp_path / "meta_Books.json", [{"asin": "B1", "category": ["Books"]}])
    with pytest.raises(InputError, match=r"meta_Books\.json .*`nodes='.*/meta_\*'`"):
        read_amazon_reviews(tmp_path / "*.json")


def test_releases_of_different_years_are_not_mixed(tmp_path):
    old, new = write_lines(tmp_path / "a.json", OLD), write_lines(tmp_path / "b.json", NEW)
    with pytest.raises(InputError, match=r"b\.json .*'user_id'.*'reviewerID'"):
        read_amazon_reviews([old, new])


def test_reviews_without_an_item_are_reported_or_skipped(tmp_path):
    file = write_lines(tmp_path / "r.json", [*OLD, {"reviewerID": "A3", "overall": 2.0}])
    with pytest.raises(InputError, match=r"r\.json, line 3: column 'asin' is empty"):
        read_amazon_reviews(file).to_arrow()
    table = read_amazon_reviews(file, on_error="skip")
    assert table.to_arrow()["label"].to_pylist() == ["5", "3"]
    assert table.errors.count == 1


def test_metadata_of_2014_is_read_from_python_literals(tmp_path):
    file = tmp_path / "meta.json"
    file.write_text(
        "{'asin': 'B1', 'title': \"It's &amp; that\", 'description': 'Long.', "
        "'categories': [['Movies', 'Crime &amp; Law'], ['Movies', 'Drama']]}\n"
    )
    expected = {"id": "B1", "side": "target", "labels": ["Movies", "Crime & Law", "Drama"]}
    expected["text"] = "It's & that\nLong."
    assert read_amazon_metadata(file).to_arrow().to_pylist() == [expected]


def test_html_is_removed_from_metadata_of_2018(tmp_path):
    item = {
        "asin": "B1",
        "title": '<span class="a-size-medium a-color-secondary"',
        "description": ["<i>Good</i> read", "", "<a href='x'>More</a> here"],
        "category": ["Magazines", "Food &amp; Wine", "</span></span>", "Magazines"],
    }
    row = read_amazon_metadata(write_lines(tmp_path / "m.json", [item])).to_arrow().to_pylist()[0]
    assert row["text"] == "Good read\nMore here"
    assert row["labels"] == ["Magazines", "Food & Wine"]


def test_metadata_of_2023_describes_the_product(tmp_path):
    item = {"parent_asin": "C", "title": "T", "description": [], "categories": ["X"]}
    row = read_amazon_metadata(write_lines(tmp_path / "m.json", [item])).to_arrow().to_pylist()[0]
    assert row == {"id": "C", "side": "target", "labels": ["X"], "text": "T"}


def test_repeated_items_are_kept(tmp_path):
    items = [{"asin": "B", "title": "1"}, {"asin": "B", "title": "2"}]
    table = read_amazon_metadata(write_lines(tmp_path / "m.json", items)).to_arrow()
    assert table["text"].to_pylist() == ["1", "2"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{'asin': 'B2', 'title'", "neither JSON"),
        ("{'asin': open('/etc/passwd')}", "neither JSON"),
        ('["B2"]', "got list"),
        ('{"title": "x"}', "asin .*title"),
    ],
    ids=["broken", "call", "list", "no id"],
)
def test_an_invalid_metadata_line_is_reported_or_skipped(tmp_path, line, message):
    file = tmp_path / "meta.json"
    file.write_text("{'asin': 'B1'}\n" + line + "\n")
    with pytest.raises(InputError, match=rf"meta\.json, line 2: .*{message}"):
        read_amazon_metadata(file).to_arrow()
    table = read_amazon_metadata(file, on_error="skip")
    assert table.to_arrow()["id"].to_pylist() == ["B1"]
    assert table.errors.count == 1
