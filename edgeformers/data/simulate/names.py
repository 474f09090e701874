"""The ids of a simulated network: numbers, or names of people and titles of books."""

import numpy as np
import pyarrow as pa

from edgeformers.data.simulate.config import Topic
from edgeformers.data.simulate.model import Model
from edgeformers.data.types import Ints

ID_DIGITS = 6  # at least
STRIDE = 421  # a prime: neighboring numbers get names that have little in common


class NodeNames:
    """The ids of sources and targets by number; no two nodes of a side have the same id."""

    def __init__(self, model: Model) -> None:
        self.config, self.model = model.config, model
        self.has_names = bool(self.config.words.first_names)

    def sources(self, numbers: Ints) -> pa.Array:
        """user-000123, or Nora Lindgren."""
        if not self.has_names:
            return format_ids("user", numbers, self.config.source_count)
        words = self.config.words
        people = [f"{first} {last}" for last in words.last_names for first in words.first_names]
        return pa.array([_choose(people, number, "{} {}") for number in numbers.tolist()])

    def targets(self, numbers: Ints) -> pa.Array:
        """item-000123, or The Quiet Harbor."""
        if not self.has_names:
            return format_ids("item", numbers, self.config.target_count)
        titles = [self._titles(topic) for topic in self.config.words.topics]
        topics, places = self.model.topic[numbers].tolist(), self._places(numbers)
        named = zip(topics, places.tolist(), strict=True)
        return pa.array([_choose(titles[k], place, "{}, volume {}") for k, place in named])

    def _titles(self, topic: Topic) -> list[str]:
        adjectives = self.config.words.adjectives
        return [f"The {adjective} {noun}" for adjective in adjectives for noun in topic.nouns]

    def _places(self, numbers: Ints) -> Ints:
        """The place of each target among the targets of its topic."""
        places = np.empty(self.config.target_count, np.int64)
        places[self.model.target_by_place] = np.arange(len(places)) // self.config.topics
        chosen: Ints = places[numbers]
        return chosen


def _choose(names: list[str], number: int, repeated: str) -> str:
    """A name of its own for every number, with a count once all names are taken."""
    name, times = names[number * STRIDE % len(names)], number // len(names)
    return repeated.format(name, times + 1) if times else name


def format_ids(kind: str, numbers: Ints, count: int) -> pa.Array:
    """Numbers below `count` as "user-000123"; all ids of one kind have the same length."""
    digits = max(ID_DIGITS, len(str(count - 1)))
    head = np.frombuffer(f"{kind}-".encode(), dtype=np.uint8)
    letters = np.empty((len(numbers), len(head) + digits), dtype=np.uint8)
    letters[:, : len(head)] = head
    rest = numbers.astype(np.uint64)
    for place in range(letters.shape[1] - 1, len(head) - 1, -1):
        tens = rest // np.uint64(10)
        letters[:, place] = rest - tens * np.uint64(10) + np.uint64(ord("0"))
        rest = tens
    ends = np.arange(len(numbers) + 1, dtype=np.int32) * letters.shape[1]
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(ends), pa.py_buffer(letters))
