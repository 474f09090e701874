"""Small networks with a known right answer."""

import pytest

from edgeformers.data.network import PrepareConfig
from edgeformers.data.splits import SplitConfig

PARTS = PrepareConfig(
    tokenizer=None,
    progress=False,
    splits=[SplitConfig(name="given", how="column", column="split")],
)


@pytest.fixture
def make_parts(make_network):
    """A network whose rows name their part in the column `split`."""

    def make(rows, *, positive=(), **more):
        config = PrepareConfig(**{**vars(PARTS), "positive_labels": positive})
        return make_network(rows, config=config, **more)

    return make


@pytest.fixture
def checkerboard(make_parts):
    """Twelve users and twelve items; a user likes the items of the same parity."""
    part = ["val", "test", "train", "train", "train", "train"]
    rows = [
        {"source": f"u{u}", "target": f"i{i}", "text": "", "split": part[(u // 2 + i // 2) % 6]}
        for u in range(12)
        for i in range(12)
        if (u - i) % 2 == 0
    ]
    return make_parts(rows)


@pytest.fixture
def opinions(make_parts):
    """Reviews whose words give the class, in the order good, bad, and a class only test has."""
    words = {"good": "a wonderful lovely film", "bad": "a dreadful boring film"}
    part = ["train", "train", "val", "test"]
    rows = [
        {
            "source": f"u{n % 7}",
            "target": f"i{n % 5}",
            "text": words[label],
            "label": label,
            "split": part[n % 4],
        }
        for n, label in enumerate(["good", "bad", "bad"] * 20)
    ]
    rows += [
        {"source": "u0", "target": "i0", "text": "odd", "label": None, "split": "train"},
        {"source": "new", "target": "i1", "text": "lovely", "label": "odd", "split": "test"},
    ]
    return make_parts(rows)
