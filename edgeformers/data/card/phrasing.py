"""Counts, shares and names as they appear in sentences."""

from collections.abc import Sequence

EXAMPLE_CHARACTERS = 80
NAME_CHARACTERS = 40


def percent(share: float) -> str:
    """Format a share: 12%, 0.4%, under 0.1%."""
    if share <= 0 or share >= 1:
        return f"{share:.0%}"
    if share < 0.001:
        return "under 0.1%"
    if share > 0.999:
        return "over 99.9%"
    return f"{share:.1%}" if share < 0.0995 or share >= 0.995 else f"{share:.0%}"


def shorten(text: str, limit: int = EXAMPLE_CHARACTERS) -> str:
    """The text as one line of at most `limit` characters, cut between words where possible."""
    line = " ".join(text[: 4 * limit].split())
    if len(line) <= limit:
        return line
    start, space, _ = line[:limit].rpartition(" ")
    return (start if space and 2 * len(start) > limit else line[: limit - 1]) + "…"


def quoted(name: str) -> str:
    """A short form of the name in quotes."""
    return f"'{shorten(name, NAME_CHARACTERS)}'"


def share_of(count: int, total: int, things: str) -> str:
    """'12% of the edges (1,204)'."""
    return f"{percent(count / max(total, 1))} of the {things} ({count:,})"


def counted(count: int, singular: str, plural: str) -> str:
    """'1 label has' or '3 labels have'."""
    return f"1 {singular}" if count == 1 else f"{count:,} {plural}"


def listed(words: Sequence[str], conjunction: str = "and") -> str:
    """'a', 'a and b', 'a, b and c'."""
    return f" {conjunction} ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
