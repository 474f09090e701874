"""Limits of requests: how large a body, how many items and tokens, how long a text may be."""

from collections.abc import Sequence
from dataclasses import dataclass

from edgeformers.errors import InputError


class TooLargeError(InputError):
    """A request exceeds a limit."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a request may consist of; more is refused with the limit in the message."""

    body_bytes: int = 4 << 20
    items: int = 2_048  # edges, nodes or inputs
    text_characters: int = 20_000
    queue_tokens: int = 262_144  # of one request, and of all that wait
    in_flight: int = 128  # requests that are answered at the same time

    def check_items(self, items: Sequence[object], what: str) -> None:
        """Raise an error if there are too many items, or none."""
        if not items:
            raise InputError(f"the request has no {what}; send at least one")
        if len(items) > self.items:
            raise TooLargeError(
                f"the request has {len(items):,} {what}; the limit is {self.items:,}: split it"
            )

    def check_texts(self, texts: Sequence[str]) -> None:
        """Raise an error if a text is too long."""
        longest = max(map(len, texts), default=0)
        if longest > self.text_characters:
            raise TooLargeError(
                f"a text has {longest:,} characters; the limit is {self.text_characters:,}"
            )
