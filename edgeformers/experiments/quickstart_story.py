"""The story of the quickstart: readers of a village library and the notes they left in its books.

Every sentence is about the simulated network at hand; its assumptions are those of `simulate`.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.simulate import Simulation
from edgeformers.data.types import Ids
from edgeformers.estimators import LinkPredictor, Recommendation
from edgeformers.inference.explain import HISTORY
from edgeformers.report.story import Note, Story, Suggestion

SHOWN_NOTES, SHOWN_HISTORY, SUGGESTIONS, REASONS = 3, 4, 3, 2


def explorer_command(folder: Path) -> str:
    """The command that opens the explorer on both models."""
    return f"edgeformers serve {folder}/edges {folder}/links --open"


def example_source(graph: EdgeTextGraph) -> str:
    """The most active "gushing" source; "reserved" ones call good things decent."""
    assert graph.node_labels is not None
    offsets, codes = graph.node_labels
    labels = np.array(graph.node_label_names)[codes[offsets[: graph.num_sources]]]
    degrees = np.asarray(graph.adjacency.degrees())[: graph.num_sources]
    return graph.node_names([int(np.where(labels == "gushing", degrees, -1).argmax())])[0]


def tell_story(
    folder: Path, graph: EdgeTextGraph, simulation: Simulation, predictor: LinkPredictor
) -> tuple[Story, list[Recommendation]]:
    """The story, and the recommendations in it."""
    source = example_source(graph)
    recommendations = predictor.recommend(source, SUGGESTIONS, explain=REASONS)
    phrase, notes = same_words(graph, simulation)
    story = Story(
        lead=_lead(graph),
        notes=[_note(graph, edge) for edge in notes],
        comment=f"Who wrote “{phrase}” decides how many stars it means." if phrase else "",
        source=source,
        history=[_note(graph, edge, own=True) for edge in favorite_notes(graph, source)],
        suggestions=[_suggestion(one) for one in recommendations],
        assumptions=assumptions(simulation),
        command=explorer_command(folder),
    )
    return story, recommendations


def same_words(graph: EdgeTextGraph, simulation: Simulation) -> tuple[str, list[int]]:
    """A verdict that readers use for different stars, and the first note for each number."""
    words, labels = simulation.config.words, graph.labels
    assert labels is not None
    level = words.verdicts[simulation.config.classes - 1]  # the highest of the most reserved
    texts = graph.texts(np.arange(graph.num_edges))
    found = {phrase: _first_by_label(texts, labels, f" {phrase}") for phrase in level}
    phrase = max(found, key=lambda each: len(found[each]))
    return phrase, found[phrase][:SHOWN_NOTES]


def _first_by_label(texts: Sequence[str], labels: Ids, phrase: str) -> list[int]:
    """The first edge of each label whose text has a phrase, the highest label first."""
    first: dict[int, int] = {}
    for edge, text in enumerate(texts):
        if phrase in text:
            first.setdefault(int(labels[edge]), edge)
    return [first[label] for label in sorted(first, reverse=True)]


def favorite_notes(graph: EdgeTextGraph, source: str) -> list[int]:
    """The edges of a source that training knows, those with the most stars first."""
    assert graph.labels is not None
    number = graph.node_number(source, "source")
    edges = np.flatnonzero((np.asarray(graph.src) == number) & (graph.split("link") == 0))
    order = np.argsort(-np.asarray(graph.labels)[edges], kind="stable")
    return [int(edge) for edge in edges[order][:SHOWN_HISTORY]]


def _lead(graph: EdgeTextGraph) -> list[str]:
    degrees = np.asarray(graph.adjacency.degrees())[graph.num_sources :]
    return [
        f"In a village library, {graph.num_sources:,} readers left {graph.num_edges:,} notes in "
        f"{graph.num_targets:,} books, and gave each book stars.",
        "How many stars would a reader give, judging by the note? That depends on who wrote it: "
        "a reserved reader calls a book with five stars “a good read”, a gushing one means three.",
        "Which book will a reader borrow next? Half of the books have at most "
        f"{np.median(degrees):.0f} notes. Who else borrowed such a book says little about it, "
        "but a single note says what it is about.",
    ]


def _note(graph: EdgeTextGraph, edge: int, *, own: bool = False) -> Note:
    assert graph.labels is not None
    who, what = graph.node_names([int(graph.src[edge]), int(graph.dst[edge])])
    stars = _stars(graph.label_names[int(graph.labels[edge])])
    return Note(text=graph.texts([edge])[0], about=f"{'' if own else who + ' '}on {what}, {stars}")


def _stars(label: str) -> str:
    return "1 star" if label == "1" else f"{label} stars"


def _suggestion(one: Recommendation) -> Suggestion:
    own = [
        Note(text=r.text, about=f"because you wrote this about {r.node} ({_stars(r.label)})")
        for r in one.because
        if r.kind == HISTORY and r.text
    ]
    others = [Note(text=q.text, about=f"{q.node} wrote this about it") for q in one.quotes[:1]]
    return Suggestion(node=one.node, reasons=[*own, *others], decision=one.decision)


def assumptions(simulation: Simulation) -> list[str]:
    """The assumptions of the simulation, with its numbers."""
    config = simulation.config
    notes, books = (config.num_edges / n for n in (config.source_count, config.target_count))
    return [
        f"The notes are simulated. Each of {config.topics} subjects has six kinds of book, and a "
        "note names the kind of its book. Models do not read titles.",
        f"A reader has two favorite subjects; {config.taste:.0%} of the books they borrow are "
        "about these, the others about any. Within a subject, some books are more popular.",
        f"A reader leaves {notes:.0f} notes and a book has {books:.0f}, on average. With many more "
        "of them, methods that count who borrowed what would learn the same without reading.",
        "Stars depend on how strict the reader and how good the book is, and on chance. The words "
        "depend on the stars and the reader's style, reserved, measured or gushing; "
        f"{config.slip:.0%} of the phrases are one level off.",
        "So the best achievable scores are known: they are computed from these assumptions.",
    ]
