"""Splits as options of `prepare`, so that an advice can be pasted."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from edgeformers.data.card.card import DataCard
from edgeformers.data.card.phrasing import listed, quoted
from edgeformers.data.splits import DEFAULT_SPLITS, SplitConfig


def split_configs(card: DataCard) -> list[SplitConfig]:
    """How the splits of a network were made, where that is known."""
    return [SplitConfig.parse(one.spec) for one in card.splits if one.spec]


def link_options(card: DataCard, names: Collection[str], **change: Any) -> str:
    """`split_options`, changing of the named splits those that links are predicted with.

    A random split beside others is left as it is: it is there to classify edges.
    """
    every = split_configs(card) or DEFAULT_SPLITS
    named = [one for one in every if one.name in names] or every
    chosen = [one.name for one in named if one.how != "random"] or [one.name for one in named]
    return split_options(card, chosen, **change)


def split_options(card: DataCard, names: Collection[str], **change: Any) -> str:
    """'add --split a=... --split b=... to prepare', the named splits changed.

    All splits of the network are there, for those that are named replace all others; the two
    default ones where it is not known how they were made.
    """
    every = split_configs(card) or DEFAULT_SPLITS
    texts = [(replace(one, **change) if one.name in names else one).to_text() for one in every]
    replaced = " (a --split replaces the default ones, so each is named)" if len(texts) > 1 else ""
    return f"add {' '.join(f'--split {text}' for text in texts)} to prepare{replaced}"


def own_columns(card: DataCard, names: Collection[str]) -> str:
    """The columns that some splits were taken from: "the column 'fold'"; "" if from none."""
    configs = [one for one in split_configs(card) if one.name in names and one.how == "column"]
    return listed([_column_words(one.column) for one in configs])


def _column_words(name: str) -> str:
    """A kept column by its name; the split column has lost the one it had in the file."""
    return "the split column" if name == "split" else f"the column {quoted(name)}"
