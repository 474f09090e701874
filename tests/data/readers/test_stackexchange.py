import gzip
import logging
import re
from datetime import datetime

import pyarrow as pa
import pytest

from edgeformers.data.readers.stackexchange import (
    TAGS,
    read_bigquery_comments,
    read_stackexchange_comments,
    read_stackexchange_posts,
    read_stackexchange_questions,
)
from edgeformers.errors import FormatError, InputError

POSTS = """\ufeff<?xml version="1.0" encoding="utf-8"?>
<posts>
  <row Id="1" PostTypeId="1" AcceptedAnswerId="4" Title="Why?" Body="&lt;p&gt;So &amp;amp; so&lt;/p&gt;" Tags="&lt;ale&gt;&lt;old-hops&gt;" OwnerUserId="7" />
  <row Id="2" PostTypeId="1" Title="How?" Body="" Tags="|ale|" />
  <row Id="3" PostTypeId="2" ParentId="1" CreationDate="2014-01-21T20:31:18.540" Score="-2" Body="&lt;p&gt;No&lt;/p&gt;" OwnerUserId="7" />
  <row Id="4" PostTypeId="2" ParentId="1" CreationDate="2014-01-22T00:00:00" Score="13" Body="&lt;b&gt;Yes&lt;/b&gt;" OwnerUserId="12" />
  <row Id="5" PostTypeId="2" ParentId="2" CreationDate="2014-01-23T00:00:00" Score="1" Body="gone" OwnerDisplayName="bob" />
</posts>
"""  # noqa: E501


@pytest.fixture
def posts(tmp_path):
    file = tmp_path / "Posts.xml"
    file.write_text(POSTS, encoding="utf-8")
    return file


def write_rows(path, root, *rows):
    path.write_text(f"<{root}>\n" + "\n".join(rows) + f"\n</{root}>\n")
    return path


def test_an_answer_is_an_edge_from_its_owner_to_the_question(posts):
    assert read_stackexchange_posts(posts).to_arrow().to_pylist() == [
        {
            "source": "7",
            "target": "1",
            "text": "No",
            "label": "other",
            "time": datetime(2014, 1, 21, 20, 31, 18, 540000),
            "score": -2,
        },
        {
            "source": "12",
            "target": "1",
            "text": "Yes",
            "label": "accepted",
            "time": datetime(2014, 1, 22),
            "score": 13,
        },
    ]


def test_answers_without_an_owner_are_logged_and_no_errors(posts, caplog):
    table = read_stackexchange_posts(posts)
    with caplog.at_level(logging.INFO, logger="edgeformers"):
        assert table.to_arrow().num_rows == 2
    assert "left out 1 answers" in caplog.text
    assert table.errors.count == 0


def test_an_accepted_answer_may_precede_its_question(tmp_path):
    file = write_rows(
        tmp_path / "Posts.xml",
        "posts",
        '<row Id="9" PostTypeId="2" ParentId="10" OwnerUserId="1" Body="b" />',
        '<row Id="10" PostTypeId="1" AcceptedAnswerId="9" Body="q" />',
    )
    assert read_stackexchange_posts(file).to_arrow()["label"].to_pylist() == ["accepted"]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_posts_read_the_same(posts, tmp_path, suffix):
    packed = tmp_path / f"packed.xml{suffix}"
    if suffix == ".gz":
        packed.write_bytes(gzip.compress(posts.read_bytes()))
    else:
        with pa.CompressedOutputStream(pa.OSFile(str(packed), "wb"), "zstd") as out:
            out.write(posts.read_bytes())
    expected = read_stackexchange_posts(posts).to_arrow()
    assert read_stackexchange_posts(packed).to_arrow().equals(expected)


def test_questions_have_tags_as_labels_and_title_and_body_as_text(posts):
    assert read_stackexchange_questions(posts).to_arrow().to_pylist() == [
        {"id": "1", "side": "target", "labels": ["ale", "old-hops"], "text": "Why?\nSo & so"},
        {"id": "2", "side": "target", "labels": ["ale"], "text": "How?"},
    ]


@pytest.mark.parametrize(
    ("tags", "expected"), [("<a><b-c>", ["a", "b-c"]), ("|a|b-c|", ["a", "b-c"]), ("", [])]
)
def test_both_spellings_of_tags_are_read(tags, expected):
    assert TAGS.findall(tags) == expected


def test_comments_are_edges_from_user_to_post(tmp_path):
    file = write_rows(
        tmp_path / "Comments.xml",
        "comments",
        '<row Id="1" PostId="5" Score="3" Text="a &lt; b" CreationDate="2014-02-01T00:00:00Z" UserId="8" />',  # noqa: E501
        '<row Id="2" PostId="5" Score="0" Text="?" CreationDate="2014-02-01T00:00:01" />',
    )
    expected = {"source": "8", "target": "5", "text": "a < b", "score": 3}
    expected["time"] = datetime(2014, 2, 1)
    assert read_stackexchange_comments(file).to_arrow().to_pylist() == [expected]


def test_malformed_xml_is_reported_with_file_and_line(tmp_path):
    file = tmp_path / "Posts.xml"
    file.write_text('<posts>\n  <row Id="1" PostTypeId="1" />\n  <row Id=2 />\n</posts>\n')
    with pytest.raises(FormatError, match=r"Posts\.xml, line 3: not well-formed XML"):
        read_stackexchange_posts(file).to_arrow()


def test_a_truncated_file_is_reported(tmp_path):
    file = tmp_path / "Posts.xml"
    file.write_text('<posts>\n  <row Id="1" PostTypeId="1" />\n')
    with pytest.raises(FormatError, match=r"Posts\.xml, line 3: not well-formed XML \(no element"):
        read_stackexchange_questions(file).to_arrow()


def test_another_file_of_the_dump_is_rejected(posts):
    with pytest.raises(FormatError, match=r"<comments>.*<posts>"):
        read_stackexchange_comments(posts).to_arrow()


def test_a_folder_is_rejected(tmp_path):
    with pytest.raises(InputError, match="XML file"):
        read_stackexchange_posts(tmp_path)


BAD_ROWS = [
    ('<row Id="3" PostTypeId="2" OwnerUserId="7" />', "row 3 has no ParentId"),
    (
        '<row Id="3" PostTypeId="2" ParentId="1" OwnerUserId="7" Score="many" />',
        "row 3 has .*Score 'many'",
    ),
    (
        '<row Id="3" PostTypeId="2" ParentId="1" OwnerUserId="7" CreationDate="soon" />',
        "row 3 has CreationDate 'soon'",
    ),
]


@pytest.mark.parametrize(("row", "message"), BAD_ROWS, ids=["parent", "score", "date"])
def test_an_invalid_row_is_reported_with_its_line_or_skipped(tmp_path, row, message):
    good = '<row Id="4" PostTypeId="2" ParentId="1" OwnerUserId="8" Body="b" />'
    file = write_rows(tmp_path / "Posts.xml", "posts", good, row)
    with pytest.raises(InputError, match=f"line 3: {message}"):
        read_stackexchange_posts(file).to_arrow()
    table = read_stackexchange_posts(file, on_error="skip")
    assert table.to_arrow().num_rows == 1
    assert table.errors.count == 1
    assert re.search(message, table.errors.examples[0])


def test_a_question_without_id_is_reported(tmp_path):
    file = write_rows(tmp_path / "Posts.xml", "posts", '<row PostTypeId="1" Title="t" />')
    with pytest.raises(InputError, match=r"line 2: .*Id"):
        read_stackexchange_questions(file).to_arrow()


BIGQUERY = [
    {"source": "3", "target": "7", "text": "hi\nthere", "score": 2},
    {"source": "4", "target": "8", "text": "y", "score": None},
]
for _row in BIGQUERY:
    _row["time"] = datetime(2014, 1, 21, 20, 26, 5, 383000)


def test_bigquery_comments_from_csv(tmp_path, caplog):
    file = tmp_path / "comments.csv"
    file.write_text(
        "id,text,creation_date,post_id,user_id,score\n"
        '1,"hi\nthere",2014-01-21 20:26:05.383 UTC,7,3,2\n'
        "2,nobody,2014-01-21 20:26:05.383 UTC,7,,0\n"
        "3,y,2014-01-21T20:26:05.383,8,4,\n"
    )
    with caplog.at_level(logging.INFO, logger="edgeformers"):
        assert read_bigquery_comments(file).to_arrow().to_pylist() == BIGQUERY
    assert "left out 1 comments" in caplog.text


def test_bigquery_comments_from_json_lines(tmp_path):
    file = tmp_path / "comments.jsonl"
    file.write_text(
        '{"text":"hi\\nthere","creation_date":"2014-01-21 20:26:05.383 UTC","post_id":"7","user_id":"3","score":"2"}\n'  # noqa: E501
        '{"text":"n","creation_date":"2014-01-21 20:26:05.383 UTC","post_id":"7","score":"0"}\n'
        '{"text":"y","creation_date":"2014-01-21 20:26:05.383 UTC","post_id":8,"user_id":4}\n'
    )
    assert read_bigquery_comments(file).to_arrow().to_pylist() == BIGQUERY


def test_an_invalid_bigquery_score_is_reported(tmp_path):
    file = tmp_path / "comments.csv"
    header = "text,creation_date,post_id,user_id,score\n"
    file.write_text(header + "a,2014-01-21,7,3,high\nb,2014-01-21,7,4,1\n")
    with pytest.raises(InputError, match=r"comments\.csv, line 2: column 'score': 'high' is not"):
        read_bigquery_comments(file).to_arrow()
    table = read_bigquery_comments(file, on_error="skip")
    assert table.to_arrow()["source"].to_pylist() == ["4"]
    assert table.errors.count == 1
