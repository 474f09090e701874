"""Scorers of candidates: inner products of vectors, or any function."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeformers.data.types import Ids
from edgeformers.errors import InputError
from edgeformers.evaluation.links import LinkTable

Table = NDArray[Any] | Tensor


class Scorer(Protocol):
    """Anything that scores candidates (columns) for queries (rows): a model or a baseline."""

    @property
    def num_candidates(self) -> int: ...

    def scores(self, rows: Ids, columns: Ids | None = None) -> Table:
        """Queries [b] and shared candidates [m], by default all -> [b, m], on any device."""

    def pick(self, rows: Ids, columns: Ids) -> NDArray[Any]:
        """Queries [b] and separate candidates for each [b, m] -> [b, m]."""


def batch_scores(scorer: Scorer, rows: Ids, columns: Ids) -> Table:
    """Queries [b] and candidates [m], which may repeat -> [b, m]; repeated ones have equal scores.

    Each is scored once: a matrix product may round equal columns differently.
    """
    candidates, places = np.unique(columns, return_inverse=True)
    return scorer.scores(rows, candidates)[:, places]


class InnerProductScorer:
    """Inner products of query [Q, D] and candidate [C, D] vectors, given as arrays or tensors.

    They are computed where the candidates are; queries are copied there block by block.
    """

    def __init__(self, query: Any, candidate: Any) -> None:
        if query.ndim != 2 or candidate.ndim != 2 or query.shape[1] != candidate.shape[1]:
            raise InputError(
                "query and candidate vectors must have the same width "
                f"(got {list(query.shape)} and {list(candidate.shape)})"
            )
        self.query, self.candidate = _at_least_float32(query), _at_least_float32(candidate)

    @property
    def num_candidates(self) -> int:
        return len(self.candidate)

    def scores(self, rows: Ids, columns: Ids | None = None) -> Table:
        chosen = self.candidate if columns is None else self.candidate[columns]
        return as_table(self._queries(rows) @ chosen.T)

    def pick(self, rows: Ids, columns: Ids) -> NDArray[Any]:
        return to_numpy((self.candidate[columns] @ self._queries(rows)[:, :, None])[:, :, 0])

    def _queries(self, rows: Ids) -> Any:
        query = self.query[rows]
        if isinstance(query, Tensor) or not isinstance(self.candidate, Tensor):
            return query
        return torch.from_numpy(query).to(self.candidate)


@dataclass(frozen=True)
class JoinedScorer:
    """The candidates of two scorers of the same queries, one after the other."""

    first: Scorer
    second: Scorer

    @property
    def num_candidates(self) -> int:
        return self.first.num_candidates + self.second.num_candidates

    def scores(self, rows: Ids, columns: Ids | None = None) -> Table:
        first, second = self.first.scores(rows), self.second.scores(rows)
        if isinstance(first, Tensor):
            table: Table = torch.cat([first, torch.as_tensor(second).to(first)], 1)
        else:
            table = np.concatenate([first, second], 1)
        return table if columns is None else table[:, columns]

    def pick(self, rows: Ids, columns: Ids) -> NDArray[Any]:
        return to_numpy(self.scores(rows)[np.arange(len(rows))[:, None], columns])


@dataclass(frozen=True)
class FunctionScorer:
    """Any function of query rows [b] that returns scores [b, C]."""

    function: Callable[[Ids], Any]
    num_candidates: int

    def scores(self, rows: Ids, columns: Ids | None = None) -> Table:
        scores = as_table(self.function(rows))
        if scores.shape != (len(rows), self.num_candidates):
            raise InputError(
                f"the scorer must return [{len(rows)}, {self.num_candidates}] scores "
                f"(got {list(scores.shape)})"
            )
        return scores if columns is None else scores[:, columns]

    def pick(self, rows: Ids, columns: Ids) -> NDArray[Any]:
        return to_numpy(self.scores(rows)[np.arange(len(rows))[:, None], columns])


@dataclass(frozen=True)
class BonusScorer:
    """Another scorer plus a bonus [Q] for the candidates linked to each query in `links`."""

    scorer: Scorer
    links: LinkTable
    bonus: NDArray[np.float32]

    @property
    def num_candidates(self) -> int:
        return self.scorer.num_candidates

    def scores(self, rows: Ids, columns: Ids | None = None) -> Table:
        scores = self.scorer.scores(rows, columns)
        if columns is not None:
            return self._with_bonus(to_numpy(scores), rows, columns[None])
        position, candidate = self.links.of(rows)
        bonus = self.bonus[rows][position]
        if isinstance(scores, Tensor):
            where = tuple(
                torch.from_numpy(index).to(scores.device) for index in (position, candidate)
            )
            return scores.index_put(where, torch.from_numpy(bonus).to(scores), accumulate=True)
        table = scores.copy()
        table[position, candidate] += bonus
        return table

    def pick(self, rows: Ids, columns: Ids) -> NDArray[Any]:
        return self._with_bonus(self.scorer.pick(rows, columns), rows, columns)

    def _with_bonus(self, scores: NDArray[Any], rows: Ids, columns: Ids) -> NDArray[Any]:
        is_linked = self.links.contains(rows[:, None], columns)
        return np.asarray(scores + is_linked * self.bonus[rows][:, None])


def as_table(values: Any) -> Table:
    """Scores as an array, or as a tensor if they are on a GPU, where they are ranked."""
    return values.detach() if getattr(values, "is_cuda", False) else to_numpy(values)


def to_numpy(values: Any) -> NDArray[Any]:
    """An array from an array or a tensor on any device."""
    is_tensor = hasattr(values, "detach")
    return np.asarray(_at_least_float32(values.detach()).cpu() if is_tensor else values)


def _at_least_float32(values: Any) -> Any:
    """Half-precision values as float32: faster on CPU, more precise, and without overflow."""
    if values.dtype.itemsize >= 4:
        return values
    return values.float() if hasattr(values, "detach") else values.astype(np.float32)
