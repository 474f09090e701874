"""Networks in which the graph or the text helps; `silent` is a verdict that does not say so."""

from collections.abc import Iterator
from functools import partial

from tests.torture.outcome import Outcome
from tests.torture.verdicts import Case, Kind, judge, labeled_rows, linked_rows, random_words
from tests.torture.verdicts import cases as cases_of

SPARSE = partial(linked_rows, sources=600, targets=600, topics=40, edges=1_500, taste=0.95)

KINDS = (
    Kind("edges, labels from both", partial(labeled_rows, nodes=1.0, words=1.4), ("graph", "text")),
    Kind("links, random words", partial(linked_rows, texts=random_words), ("graph",)),
    Kind("links, few, by topic", SPARSE, ("text",)),
)


def cases(seed: int) -> Iterator[Case]:
    """Networks of all kinds in turn."""
    return cases_of(KINDS, seed)


def run(case: Case) -> Outcome:
    """What helps must be found."""
    return judge(case, expected=True)
