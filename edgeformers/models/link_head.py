"""LinkHead: the link score of a node model and the softmax loss that trains it (section 3.2)."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgeformers.data.types import Side
from edgeformers.errors import ConfigError, InputError
from edgeformers.evaluation import LinkMask

MAX_SCALE = 100.0  # a learned temperature stops at 0.01; below, training diverges


@dataclass(frozen=True)
class EncodedNodes:
    """A batch of encoded nodes.

    Shapes: n nodes, D width of the encoder, K width of the node table.
    """

    states: Tensor  # [n, D]
    nodes: Tensor  # [n], -1 for an unknown node
    z: Tensor | None = None  # [n, K], for the collaborative term
    log_q: Tensor | None = None  # [n], for the logQ correction

    def __len__(self) -> int:
        return len(self.nodes)

    def rows(self, chosen: Tensor) -> "EncodedNodes":
        """Some of the nodes, chosen by a mask [n]."""
        z, log_q = (None if part is None else part[chosen] for part in (self.z, self.log_q))
        return EncodedNodes(self.states[chosen], self.nodes[chosen], z, log_q)

    def extended(self, other: "EncodedNodes | None") -> "EncodedNodes":
        """These nodes followed by others."""
        if other is None:
            return self
        return EncodedNodes(
            torch.cat([self.states, other.states]),
            torch.cat([self.nodes, other.nodes]),
            _cat(self.z, other.z, "z"),
            _cat(self.log_q, other.log_q, "log_q"),
        )


class LinkHead(nn.Module):
    """The score of a link, and the loss: a softmax over keys in which the linked one must win.

    Score: scale h_v . h_u + weight z_v . z_u + b_u. It is the inner product of longer vectors
    (`factors`), so that ranking uses exactly the score that was trained. Without options this is
    the paper's objective: h_v . h_u, with the keys of the other pairs in the batch as negatives.

    - `temperature` divides h_v . h_u: a number, or "learned". `normalize` scales both to length 1.
    - `logq` (0 to 1) subtracts that share of log q(u), how often u occurs as a key, from the
      logits: in-batch negatives follow popularity and would push popular nodes down.
    - `mask_false_negatives` removes keys known to be linked to the query from the softmax.
    - `uniform_negatives` is the number of extra keys drawn uniformly for each batch.
    - `collaborative` adds the inner product of node vectors z, with a learned weight.
    - `popularity_bias` adds a learned b_u, initialized by `initialize_bias`.

    Shapes: n pairs, m extra keys, D width, K width of the node vectors z.
    """

    def __init__(
        self,
        *,
        temperature: float | Literal["learned"] | None = None,
        normalize: bool = False,
        logq: float = 0.0,
        mask_false_negatives: bool = False,
        uniform_negatives: int = 0,
        collaborative: bool = False,
        popularity_bias: bool = False,
        num_nodes: int = 0,
    ) -> None:
        super().__init__()
        _check_settings(temperature, logq, uniform_negatives)
        if popularity_bias and num_nodes < 1:
            raise ConfigError("popularity_bias needs num_nodes, the number of nodes")
        self.temperature, self.normalize, self.logq = temperature, normalize, logq
        self.mask_false_negatives = mask_false_negatives
        self.uniform_negatives = uniform_negatives
        self.log_scale: nn.Parameter | None = None
        if temperature == "learned":
            self.log_scale = nn.Parameter(torch.tensor(math.log(20.0 if normalize else 1.0)))
        self.weight = nn.Parameter(torch.ones(())) if collaborative else None
        self.bias = nn.Parameter(torch.zeros(num_nodes)) if popularity_bias else None

    @property
    def is_collaborative(self) -> bool:
        """Whether the score has a term of node vectors."""
        return self.weight is not None

    @torch.no_grad()
    def initialize_bias(self, key_counts: Tensor) -> None:
        """Set b_u to log(1 + count) of how often node u [N] is a key, centered at 0.

        A node that is never a key gets the mean, 0, like an unknown node.
        """
        seen = key_counts > 0
        if self.bias is not None and seen.any():
            popularity = key_counts.to(self.bias).log1p()
            self.bias.copy_(torch.where(seen, popularity - popularity[seen].mean(), 0.0))

    def scale(self) -> Tensor | float:
        """The factor of h_v . h_u: 1 / temperature."""
        if self.log_scale is not None:
            return self.log_scale.exp().clamp(max=MAX_SCALE)
        return 1.0 if self.temperature is None else 1.0 / float(self.temperature)

    def factors(self, side: Side, encoded: EncodedNodes) -> Tensor:
        """Vectors [n, R] whose products are scores: [scale h ; weight z ; 1] . [h ; z ; b]."""
        parts = [self.text_factors(side, encoded.states)]
        if self.is_collaborative:
            if encoded.z is None:
                raise InputError("the collaborative term needs the node vectors z of every node")
            parts.append(self.node_factors(side, encoded.z))
        if self.bias is not None:
            parts.append(self.popularity_factors(side, encoded.nodes))
        return torch.cat(parts, dim=-1)

    def text_factors(self, side: Side, states: Tensor) -> Tensor:
        """[n, D] -> [n, D], the factors of scale h_v . h_u."""
        states = F.normalize(states.float(), dim=-1) if self.normalize else states.float()
        return states * self.scale() if side == "source" else states

    def node_factors(self, side: Side, z: Tensor) -> Tensor:
        """[n, K] -> [n, K], the factors of weight z_v . z_u."""
        assert self.weight is not None
        return z * self.weight if side == "source" else z

    def popularity_factors(self, side: Side, nodes: Tensor) -> Tensor:
        """[n] -> [n, 1], the factors of b_u; 0 for an unknown node (-1)."""
        assert self.bias is not None
        known = (nodes >= 0).float()[:, None]
        if side == "source":
            return torch.ones_like(known)
        return self.bias[nodes.clamp(min=0), None] * known

    def loss(
        self,
        query: EncodedNodes,
        key: EncodedNodes,
        *,
        extra: EncodedNodes | None = None,
        known_links: LinkMask | Tensor | None = None,
    ) -> Tensor:
        """Pairs (query i, key i) -> the mean of -log softmax at the diagonal.

        `extra` keys are negatives of every query: nodes drawn uniformly, or the keys of other
        processes. `known_links` is a mask [n, n + m], or a function that returns one; it is used
        with `mask_false_negatives`.
        """
        keys = key.extended(extra)
        with torch.autocast(query.states.device.type, enabled=False):
            logits = self.factors("source", query) @ self.factors("target", keys).T  # [n, n+m]
            if self.logq:
                if keys.log_q is None:
                    raise InputError("the logQ correction (logq > 0) needs log_q of every key")
                logits = logits - self.logq * keys.log_q
            if self.mask_false_negatives:
                mask = false_negatives(query.nodes, key.nodes, keys.nodes, known_links)
                logits = logits.masked_fill(mask, -math.inf)
            diagonal = torch.arange(len(query), device=logits.device)
            return F.cross_entropy(logits, diagonal, reduction="sum") / max(len(query), 1)


def false_negatives(
    query_nodes: Tensor,
    key_nodes: Tensor,
    all_nodes: Tensor,
    known_links: LinkMask | Tensor | None = None,
) -> Tensor:
    """Keys [n, n + m] that are not negatives of a query; its own positive is not among them.

    These are further occurrences of its positive, positives of the same query elsewhere in the
    batch, and known links. Two unknown nodes (-1) are never the same node.
    """
    same_query = (query_nodes[:, None] == query_nodes) & (query_nodes >= 0)
    same_query |= torch.eye(len(query_nodes), dtype=torch.bool, device=query_nodes.device)
    same_key = (key_nodes[:, None] == all_nodes) & (key_nodes >= 0)[:, None]  # [n, n+m]
    same_key[:, : len(key_nodes)].fill_diagonal_(True)
    mask = same_query.float() @ same_key.float() > 0
    if known_links is not None:
        mask |= (
            known_links if isinstance(known_links, Tensor) else known_links(query_nodes, all_nodes)
        )
    mask[:, : len(key_nodes)].fill_diagonal_(False)
    return mask


def sampling_log_q(
    key_counts: Tensor, *, batch_size: int = 1, uniform_negatives: int = 0
) -> Tensor:
    """Log q(u) of all candidates [C]: the probability that a key of a batch is candidate u.

    `key_counts` are the training pairs with each candidate as key. Uniform negatives next to the
    `batch_size` pairs raise the probability of rare nodes. Without them, a candidate that is
    never a key counts as half a pair.
    """
    counts = key_counts.double().clamp(min=0.0 if uniform_negatives else 0.5)
    in_batch = counts / counts.sum()
    keys = batch_size + uniform_negatives
    return (batch_size * in_batch + uniform_negatives / len(counts)).div(keys).log().float()


def _cat(first: Tensor | None, second: Tensor | None, what: str) -> Tensor | None:
    if first is None and second is None:
        return None
    if first is None or second is None:
        raise InputError(f"either all keys of a batch have {what}, or none of them")
    return torch.cat([first, second])


def _check_settings(temperature: float | str | None, logq: float, uniform_negatives: int) -> None:
    is_positive = isinstance(temperature, int | float) and temperature > 0
    if not (temperature is None or temperature == "learned" or is_positive):
        raise ConfigError(
            f"temperature must be a positive number, 'learned' or None (got {temperature!r})"
        )
    if not 0 <= logq <= 1:
        raise ConfigError(f"logq must be from 0 (off) to 1 (full correction) (got {logq})")
    if uniform_negatives < 0:
        raise ConfigError(f"uniform_negatives must be 0 or more (got {uniform_negatives})")
