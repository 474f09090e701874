"""What pages show, from plain values: bars of components, shaded words, changed rankings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgeformers.inference.word_attention import AttendedText

LEVELS = 5  # of shading

#: What the components of a score are, for people who have not read the paper.
COMPONENTS = {
    "text": "what the texts of its edges say",
    "node_vectors": "vectors learned for each node, without text",
    "popularity": "the same for everybody",
    "als": "who is linked to what (matrix factorization), without text",
    "ease": "what is linked together (EASE), without text",
    "lightgcn": "who is linked to what (LightGCN), without text",
    "activity_profiles": "when nodes are active",
    "recent_popularity": "links of the last days, the same for everybody",
    "flat_popularity": "whether there are recent links at all, the same for everybody",
    "audience": "how similar those are who are linked to it, without text",
    "topics": "what its texts are about, and what those linked to it usually link to",
    "recent_history": "what is linked together with its last links, without text",
    "novelty": "how new it is, the same for everybody",
    "novelty_preference": "how new it is, for those who usually link to what is new",
    "reciprocity": "whether there is an edge the other way",
}


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A value as a bar: from `low` to `high`, shares of the width in which 0 is at `zero`."""

    name: str
    value: float
    low: float
    high: float
    zero: float
    about: str


def component_bars(parts: Sequence[Mapping[str, float]]) -> list[list[Bar]]:
    """The components of several scores as bars on one scale; all-zero components are left out."""
    values = [value for own in parts for value in own.values()]
    least, most = min([0.0, *values]), max([0.0, *values])
    span = (most - least) or 1.0
    used = {name for own in parts for name, value in own.items() if value}

    def bar(name: str, value: float) -> Bar:
        ends = sorted((-least / span, (value - least) / span))
        about = COMPONENTS.get(name, "")
        zero = -least / span
        shown = name.replace("_", " ")
        return Bar(name=shown, value=value, low=ends[0], high=ends[1], zero=zero, about=about)

    return [[bar(name, value) for name, value in own.items() if name in used] for own in parts]


def shade_words(attended: AttendedText) -> list[tuple[str, int]]:
    """A text in pieces with levels of shading; 5 is that of the word with most attention."""
    text, pieces, at = attended.text, [], 0
    most = max((word.weight for word in attended.words), default=0.0) or 1.0
    for word in attended.words:
        level = int(LEVELS * word.weight / most)
        pieces += [(text[at : word.start], 0), (text[word.start : word.end], level)]
        at = word.end
    return [piece for piece in [*pieces, (text[at:], 0)] if piece[0]]


@dataclass(frozen=True, kw_only=True)
class RankChange:
    """A target with its ranks in two rankings; None if it is not among those compared."""

    node: str
    before: int | None
    after: int | None
    score_before: float | None = None
    score_after: float | None = None

    @property
    def change(self) -> str:
        if self.before is None or self.after is None:
            return "new" if self.before is None else "gone"
        return "same" if self.before == self.after else "up" if self.after < self.before else "down"

    @property
    def arrow(self) -> str:
        if self.before is None or self.after is None:
            return self.change
        moved = self.before - self.after
        return "" if not moved else f"{'▲' if moved > 0 else '▼'} {abs(moved)}"


Scored = Sequence[tuple[str, float]]  # nodes with scores, best first


def rank_changes(before: Scored, after: Scored) -> list[RankChange]:
    """The targets of two rankings in the order of the first; those only in the second follow."""
    first = {node: (rank, score) for rank, (node, score) in enumerate(before, start=1)}
    second = {node: (rank, score) for rank, (node, score) in enumerate(after, start=1)}
    return [
        RankChange(
            node=node,
            before=first.get(node, (None, None))[0],
            after=second.get(node, (None, None))[0],
            score_before=first.get(node, (None, None))[1],
            score_after=second.get(node, (None, None))[1],
        )
        for node in dict.fromkeys([*first, *second])
    ]
