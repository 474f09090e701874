"""A small network of films in memory, and a parser that checks pages."""

from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np

COPY = (
    "navigator.clipboard.writeText(this.previousElementSibling.textContent)"
    ".then(() => this.textContent = 'Copied')"
)
VOID = {"meta", "br", "img", "wbr"}


class Outline(HTMLParser):
    """Collects tags, text and links; fails on external resources and foreign event handlers."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.words, self.labels = [], set(), [], []
        self.links, self.anchors = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.labels += [value for name, value in attrs if name == "aria-label"]
        handlers = {(tag, name, value) for name, value in attrs if name.startswith("on")}
        assert handlers <= {("button", "onclick", COPY)}
        places = {name: value for name, value in attrs if name in ("src", "href")}
        self.anchors += [value for name, value in attrs if name == "id"]
        self.links += [value for name, value in places.items() if name == "href"]
        assert places.get("href", "#").startswith("#")
        assert places.get("src", "data:image/svg+xml;base64,").startswith("data:image/svg+xml")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def outline(page):
    """The parsed page; fails if it is not well formed."""
    parser = Outline()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def make_graph(words=("good", "bad", "", "good"), names=("ann", "bob", "jaws", "heat"), **more):
    """Two sources and two targets; the last edge repeats a training text in the test part."""
    numbers = {text: n for n, text in enumerate(dict.fromkeys(words), start=1)}
    values = {
        "name": "films",
        "origin": "films.csv",
        "num_nodes": 4,
        "num_edges": 4,
        "num_sources": 2,
        "num_targets": 2,
        "is_bipartite": True,
        "is_directed": True,
        "is_undirected": False,
        "src": np.array([0, 0, 1, 1], np.int32),
        "dst": np.array([2, 3, 2, 3], np.int32),
        "label_kind": "class",
        "label_names": ["fresh", "rotten"],
        "labels": np.array([0, 1, -1, 0], np.int16),
        "times": np.array(
            ["2020-01-01", "2020-03-01", "2021-02-01", "2021-02-02"], "M8[us]"
        ).astype(np.int64),
        "weights": np.array([0.5, 1.5, 2.5, 9.5], np.float32),
        "edge_types": np.array([0, 1, 0, 0], np.int16),
        "edge_type_names": ["review", "remark"],
        "splits": {"random": np.array([0, 0, 1, 2], np.uint8)},
        "split_configs": {},
        "text_hashes": np.array([numbers[text] for text in words], np.uint64),
        "text_lengths": np.array([len(text) for text in words], np.int32),
        "texts": lambda ids: [words[i] for i in ids],
        "node_index": SimpleNamespace(count_shared_ids=lambda: 0),
        "node_names": lambda ids: [names[i] for i in ids],
        "node_labels": (np.array([0, 0, 0, 1, 1]), np.array([0])),
        "node_label_names": ["horror"],
        "tokens": SimpleNamespace(lengths=np.array([3, 3, 2, 90]), name="tiny", vocab_size=30522),
        "notes": ["labels were taken from column 'fresh'"],
        "skipped": {"count": 1, "examples": ["films.csv, line 7: column 'film' is empty"]},
    }
    return SimpleNamespace(**{**values, **more})
