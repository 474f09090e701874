"""The vocabulary of the simulated reviews, from words.toml."""

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Topic:
    """A group of items: its products with their parts, and the occasions they are bought for."""

    name: str
    products: dict[str, list[str]]  # product -> parts that a review may mention
    occasions: list[str]  # each completes "Bought it ..."


_WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))

TOPICS = [Topic(**topic) for topic in _WORDS["topics"]]
OPENINGS: list[str] = _WORDS["openings"]
SUBJECTS: list[str] = _WORDS["subjects"]
LINKS: list[str] = _WORDS["links"]
STYLES: list[str] = _WORDS["styles"]
VERDICTS: list[list[str]] = _WORDS["verdicts"]  # by sentiment level
REMARKS: list[list[str]] = _WORDS["remarks"]  # by sentiment level
ASIDES: list[str] = _WORDS["asides"]

PRODUCTS = 6  # per topic
PARTS = 3  # per product
PHRASES = 4  # per sentiment level
