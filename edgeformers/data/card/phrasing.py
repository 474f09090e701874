"""Numbers and texts in words fit for a sentence."""

from collections.abc import Sequence

from edgeformers.data.card.card import Finding, Severity

EXAMPLE_CHARACTERS = 80
NAME_CHARACTERS = 40


def percent(share: float) -> str:
    """A share in words fit for a sentence: 12%, 0.4%, under 0.1%."""
    if share <= 0 or share >= 1:
        return f"{share:.0%}"
    if share < 0.001:
        return "under 0.1%"
    if share > 0.999:
        return "over 99.9%"
    return f"{share:.1%}" if share < 0.0995 or share >= 0.995 else f"{share:.0%}"


def shorten(text: str, limit: int = EXAMPLE_CHARACTERS) -> str:
    """One line of at most `limit` characters."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def quoted(name: str) -> str:
    """A name as it stands in a sentence."""
    return f"'{shorten(name, NAME_CHARACTERS)}'"


def of_all(count: int, total: int, things: str) -> str:
    """'12% of the edges (1,204)'."""
    return f"{percent(count / max(total, 1))} of the {things} ({count:,})"


def counted(count: int, one: str, many: str) -> str:
    """'1 label has' or '3 labels have'."""
    return f"1 {one}" if count == 1 else f"{count:,} {many}"


def listed(words: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def finding(
    severity: Severity,
    about: str,
    sentence: str,
    advice: str,
    splits: Sequence[str] = (),
    **numbers: float,
) -> Finding:
    """A finding whose sentence begins with a capital."""
    sentence = sentence[:1].upper() + sentence[1:]
    return Finding(severity, about, sentence, advice, numbers, list(splits))
