"""What a network is about: example texts, recommendations with reasons, and assumptions."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from edgeformers.report.page import Block, CommandLine, Paragraph, Quote, Section, bullets


@dataclass(frozen=True, kw_only=True)
class Note:
    """A text of an edge, and who wrote it about what."""

    text: str
    about: str


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A recommended node, the texts that are its reasons, and what decided."""

    node: str
    reasons: list[Note]
    decision: str = ""


@dataclass(frozen=True, kw_only=True)
class Story:
    """What a newcomer should know about a network, and what a model recommends in it."""

    lead: list[str]
    notes: list[Note] = field(default_factory=list)
    comment: str = ""  # on the notes
    source: str = ""  # to whom the suggestions are made
    history: list[Note] = field(default_factory=list)  # what the source wrote
    suggestions: list[Suggestion] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)  # of a simulation
    command: str = ""  # to go on with


def example_section(story: Story) -> Section:
    """Some texts of the network."""
    comment: list[Block] = [Paragraph(story.comment)] if story.comment else []
    return Section("What the texts look like", [*comment, *_quotes(story.notes)])


def suggestion_section(story: Story) -> Section:
    """What somebody wrote, and what is recommended to them for which reasons."""
    own = Section(f"{story.source} wrote", _quotes(story.history)) if story.history else None
    return Section(
        f"Recommended to {story.source}",
        [
            *([own] if own else []),
            *(
                Section(
                    f"{place}. {each.node}",
                    [
                        *_quotes(each.reasons),
                        *([Paragraph(each.decision, muted=True)] if each.decision else []),
                    ],
                )
                for place, each in enumerate(story.suggestions, 1)
            ),
        ],
    )


def assumption_section(story: Story) -> Section:
    """How the network was simulated."""
    return Section("How the data was made", bullets(story.assumptions))


def next_section(story: Story) -> Section:
    """The command to go on with."""
    return Section("Explore it in a browser", [CommandLine(story.command)] if story.command else [])


def _quotes(notes: Sequence[Note]) -> list[Block]:
    return [Quote(note.text, note.about) for note in notes]
