"""Networks in which the graph or the text cannot help; `silent` is a verdict that it does."""

from collections.abc import Iterator
from functools import partial

from tests.torture.outcome import Outcome
from tests.torture.verdicts import (
    Case,
    Kind,
    identical,
    judge,
    labeled_rows,
    linked_rows,
    permuted,
    random_words,
    sometimes_identical,
)
from tests.torture.verdicts import cases as cases_of

TEXTS = {"identical texts": identical, "random words": random_words, "permuted texts": permuted}
ALL = ("graph", "text", "ensemble")

KINDS = (
    *(
        Kind(f"edges, {name}", partial(labeled_rows, nodes=1.0, words=0.0, texts=texts), ("text",))
        for name, texts in TEXTS.items()
    ),
    *(
        Kind(f"links, {name}", partial(linked_rows, texts=texts), ("text",))
        for name, texts in TEXTS.items()
    ),
    Kind("edges, random labels", partial(labeled_rows, nodes=0.0, words=0.0), ALL),
    Kind("edges, labels from texts", partial(labeled_rows, nodes=0.0, words=1.0), ("graph",)),
    Kind("links, random links", partial(linked_rows, taste=0.0, texts=sometimes_identical), ALL),
)


def cases(seed: int) -> Iterator[Case]:
    """Networks of all kinds in turn."""
    return cases_of(KINDS, seed)


def run(case: Case) -> Outcome:
    """Nothing may help."""
    return judge(case, expected=False)
