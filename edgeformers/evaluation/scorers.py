"""What gives scores to candidates: products of vectors, or any function."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgeformers.data.types import Ids
from edgeformers.errors import InputError
from edgeformers.evaluation.links import LinkTable


class Scorer(Protocol):
    """What can be ranked: a model, a baseline, anything that scores candidates for queries."""

    @property
    def num_candidates(self) -> int: ...

    def scores(self, rows: Ids, columns: Ids | None = None) -> NDArray[Any]:
        """Queries [b] against the same candidates [m], or against all: [b, m]."""

    def pick(self, rows: Ids, columns: Ids) -> NDArray[Any]:
        """Queries [b], each against candidates of its own [b, m]: [b, m]."""


class InnerProductScorer:
    """Scores that are products: query [Q, D] times candidate [C, D], as arrays or tensors.

    `bias` [C] adds to every score of a candidate and `more`, a second pair of factors, adds a
    second product; both are laid beside the first pair, so that one matrix product remains.
    """

    def __init__(
        self,
        query: Any,
        candidate: Any,
        *,
        bias: ArrayLike | None = None,
        more: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> None:
        pairs = [(query, candidate)] if more is None else [(query, candidate), more]
        if bias is not None:
            column = np.asarray(bias, np.float32)[:, None]
            pairs.append((np.ones((len(query), 1), np.float32), column))
        if len(pairs) > 1:
            query, candidate = (
                np.hstack([on_host(f) for f in side]) for side in zip(*pairs, strict=True)
            )
        if query.ndim != 2 or candidate.ndim != 2 or query.shape[1] != candidate.shape[1]:
            raise InputError(
                f"queries and candidates must be of one width (got {list(query.shape)} "
                f"and {list(candidate.shape)})"
            )
        self.query, self.candidate = _single(query), _single(candidate)

    @property
    def num_candidates(self) -> int:
        return len(self.candidate)

    def scores(self, rows: Ids, columns: Ids | None = None) -> NDArray[Any]:
        chosen = self.candidate if columns is None else self.candidate[columns]
        return on_host(self.query[rows] @ chosen.T)

    def pick(self, rows: Ids, columns: Ids) -> NDArray[Any]:
        return on_host((self.candidate[columns] @ self.query[rows][:, :, None])[:, :, 0])


@dataclass(frozen=True)
class FunctionScorer:
    """Any function of query rows [b] that gives scores [b, C], such as a linear recommender."""

    function: Callable[[Ids], Any]
    num_candidates: int

    def scores(self, rows: Ids, columns: Ids | None = None) -> NDArray[Any]:
        block = on_host(self.function(rows))
        if block.shape != (len(rows), self.num_candidates):
            raise InputError(
                f"the scorer must give [{len(rows)}, {self.num_candidates}] scores "
                f"(got {list(block.shape)})"
            )
        return block if columns is None else block[:, columns]

    def pick(self, rows: Ids, columns: Ids) -> NDArray[Any]:
        return np.take_along_axis(self.scores(rows), columns, axis=1)


@dataclass(frozen=True)
class BonusScorer:
    """The scores of another, raised by `amount` [Q] for the candidates in `links` of each query."""

    scorer: Scorer
    links: LinkTable
    amount: NDArray[np.float32]

    @property
    def num_candidates(self) -> int:
        return self.scorer.num_candidates

    def scores(self, rows: Ids, columns: Ids | None = None) -> NDArray[Any]:
        block = np.array(self.scorer.scores(rows, columns))
        if columns is None:
            place, candidate = self.links.of(rows)
            block[place, candidate] += self.amount[rows][place]
            return block
        return self._raise(block, rows, columns[None])

    def pick(self, rows: Ids, columns: Ids) -> NDArray[Any]:
        return self._raise(np.array(self.scorer.pick(rows, columns)), rows, columns)

    def _raise(self, block: NDArray[Any], rows: Ids, columns: Ids) -> NDArray[Any]:
        is_linked = self.links.contains(rows[:, None], columns)
        raised: NDArray[Any] = block + is_linked * self.amount[rows][:, None]
        return raised


def on_host(block: Any) -> NDArray[Any]:
    """An array here, whether it was one already or a tensor on some device."""
    return np.asarray(_single(block.detach()).cpu() if hasattr(block, "detach") else block)


def _single(factor: Any) -> Any:
    """At least single precision: shorter numbers are slow here, coarse, or overflow."""
    if factor.dtype.itemsize >= 4:
        return factor
    return factor.float() if hasattr(factor, "detach") else factor.astype(np.float32)
