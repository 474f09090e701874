import pytest

from edgeformers.data.readers.authors import (
    looks_like_authors_folder,
    read_authors_edges,
    read_authors_pairs,
)
from edgeformers.errors import InputError

F, P = r"\$\$", r"\*\*"


def write(folder, **files):
    for name, lines in files.items():
        (folder / f"{name}.tsv").write_text("".join(line + "\n" for line in lines))
    (folder / "node_num.pkl").write_bytes(b"cos\nsystem\n(S'false'\ntR.")  # must stay unread
    return folder


def edge_line(*fields):
    return F.join(fields)


def ego(node, positive=(), negative=(), blank="\t"):
    """A node's description; a neighbor is (id, text)."""
    texts = ["\t".join(text for _, text in group) for group in (positive, negative)]
    ids = [blank.join(i for i, _ in group) for group in (positive, negative)]
    return P.join([node, *texts, *ids])


def rows(table):
    names = ("source", "target", "text", "label", "split")
    return [tuple(row[name] for name in names) for row in table.to_arrow().to_pylist()]


PAD = ("-1", "")


def test_edges_keep_file_order_and_take_their_split_from_the_file_name(tmp_path):
    write(
        tmp_path,
        train=[edge_line("good one", "0", "7", "4"), edge_line("bad", "1", "7", "0")],
        val=[edge_line("meh", "0", "8", "2")],
        test=[edge_line("", "1", "9", "3")],
    )
    table = read_authors_edges(tmp_path)
    assert table.bipartite
    assert rows(table) == [
        ("0", "7", "good one", "4", "train"),
        ("1", "7", "bad", "0", "train"),
        ("0", "8", "meh", "2", "val"),
        ("1", "9", "", "3", "test"),
    ]


def test_a_text_may_contain_the_separator(tmp_path):
    write(tmp_path, train=[edge_line(rf"costs {F} a lot", "0", "7", "4")])
    assert rows(read_authors_edges(tmp_path)) == [("0", "7", rf"costs {F} a lot", "4", "train")]


def test_an_incomplete_edge_line_is_reported_or_skipped(tmp_path):
    write(
        tmp_path, train=[edge_line("a", "0", "7", "4"), "only text", edge_line("b", "", "1", "0")]
    )
    with pytest.raises(InputError, match=r"train\.tsv, line 2: expected.*'only text'"):
        read_authors_edges(tmp_path).to_arrow()
    table = read_authors_edges(tmp_path, on_error="skip")
    assert len(rows(table)) == 1
    assert table.errors.count == 2


def test_a_line_that_is_not_utf8_is_reported(tmp_path):
    (tmp_path / "train.tsv").write_bytes(b"\xff\xfe" + rb"\$\$0\$\$1\$\$2")
    with pytest.raises(InputError, match=r"train\.tsv, line 1: .*UTF-8"):
        read_authors_edges(tmp_path).to_arrow()


def test_a_folder_without_train_is_rejected(tmp_path):
    with pytest.raises(InputError, match=r"no train\.tsv"):
        read_authors_pairs(tmp_path)


def test_pairs_and_their_neighbors_are_edges(tmp_path):
    write(
        tmp_path,
        train=[
            F.join(
                [
                    ego("u1", [("i2", "liked it"), PAD], [("i3", "hated it"), PAD]),
                    ego("i1", [("u2", "great"), PAD], [PAD, PAD]),
                    "1",
                ]
            ),
            F.join([ego("u2", [("i1", "great"), PAD]), ego("i2", [("u1", "liked it")]), "1"]),
        ],
        val=[F.join([ego("u1", [("i2", "liked it")]), ego("i9", [("u5", "never trained")]), "1"])],
        test=[F.join([ego("u2"), ego("i3", [], [("u1", "hated it")]), "0"])],
    )
    assert rows(read_authors_pairs(tmp_path)) == [
        ("u1", "i2", "liked it", "1", "train"),
        ("u1", "i3", "hated it", "0", "train"),
        ("u2", "i1", "great", "1", "train"),
        ("u1", "i9", "", "1", "val"),
        ("u2", "i3", "", "0", "test"),
        ("u1", "i1", "", "1", "train"),
        ("u2", "i2", "", "1", "train"),
    ]


def test_a_pair_has_its_text_from_any_neighbor_list_and_its_own_split(tmp_path):
    write(
        tmp_path,
        train=[
            F.join([ego("u1", [("i2", "two")]), ego("i1"), "1"]),
            F.join([ego("u3", [("i1", "known")]), ego("i2"), "1"]),
            F.join([ego("u2"), ego("i1", [("u1", "one")]), "1"]),
        ],
        val=[F.join([ego("u3", [("i2", "late")]), ego("i1"), "1"])],
    )
    edges = rows(read_authors_pairs(tmp_path))
    assert ("u1", "i1", "one", "1", "train") in edges
    assert ("u3", "i1", "known", "1", "val") in edges  # never a training edge
    assert ("u3", "i2", "late", "1", "train") in edges  # a train pair met around a val pair
    assert len(edges) == len({row[:3] for row in edges}) == 5


def test_a_single_group_and_ids_separated_by_spaces_are_read(tmp_path):
    one_group = P.join(["u1", "how\twhy\t", "q1 q2 -1"])
    write(tmp_path, train=[F.join([one_group, P.join(["q3", "", ""]), "1"])])
    assert rows(read_authors_pairs(tmp_path)) == [
        ("u1", "q1", "how", "1", "train"),
        ("u1", "q2", "why", "1", "train"),
        ("u1", "q3", "", "1", "train"),
    ]


BAD_PAIRS = [
    ("no separators", "expected node1"),
    (F.join([ego("u1"), "i1", "1"]), "node2 .*1 parts"),
    (
        F.join([ego("u1", [("i1", "a"), ("i2", "b\tc")]), ego("i1"), "1"]),
        "group 1 of node1 has 3 texts",
    ),
]


@pytest.mark.parametrize(("line", "message"), BAD_PAIRS, ids=["fields", "parts", "counts"])
def test_an_invalid_pair_line_is_reported_or_skipped_once(tmp_path, line, message):
    good = F.join([ego("u1", [("i2", "t")]), ego("i1"), "1"])
    write(tmp_path, train=[good, line])
    with pytest.raises(InputError, match=rf"train\.tsv, line 2: {message}"):
        read_authors_pairs(tmp_path).to_arrow()
    table = read_authors_pairs(tmp_path, on_error="skip")
    assert len(rows(table)) == 2
    assert table.errors.count == 1


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (edge_line("a", "0", "7", "4"), "edges"),
        (F.join([ego("u1"), ego("i1"), "1"]), "pairs"),
        ("a\tb\tc", None),
    ],
)
def test_the_kind_of_folder_is_recognized(tmp_path, line, kind):
    assert looks_like_authors_folder(write(tmp_path, train=[line])) == kind


def test_other_folders_are_not_recognized(tmp_path):
    assert looks_like_authors_folder(tmp_path) is None
    assert looks_like_authors_folder(tmp_path / "missing") is None
