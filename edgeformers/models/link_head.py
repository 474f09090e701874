"""Link prediction: queries find their keys among the batch, and later among all nodes."""

import math
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from edgeformers.errors import ConfigError, InputError, suggest
from edgeformers.evaluation import PROTOCOLS, RANK_METRICS, InnerProductScorer, LinkMask, Scorer
from edgeformers.inference.components import LinkEnsemble, Side

_LARGEST_SCALE = 100.0  # a learned temperature stops at 0.01, or training breaks down


class LinkHead(nn.Module):
    """The score of a link, and the softmax over keys in which the linked one must win.

    With no options this is the paper's objective (section 3.2): the score is h_v . h_u and the
    negatives of a query are the keys of the other pairs in its batch. The options:

    - `temperature` divides h_v . h_u: a number, or "learned"; `normalize` makes both of length 1.
    - `logq` (0 to 1) takes that share of log q(u), how often u comes up as a key, from the
      logits: in-batch negatives follow popularity and would push popular nodes down.
    - `mask_false_negatives` leaves out keys known to be linked to the query.
    - `uniform_negatives` asks for that many keys drawn evenly, given with each call (`extra`).
    - `collaborative` adds a product z_v . z_u that needs no text, with a learned weight, of
      vectors given with each call.
    - `popularity_bias` adds a learned b_u, which may start from popularity (`start_bias`).

    Score: scale h_v . h_u + weight z_v . z_u + b_u, which is one product of longer vectors
    (`factors`), so that ranking all nodes uses exactly the score that was trained. After training
    products of fixed vectors can be set beside it (`set_ensemble`).

    Shapes: n pairs, m extra keys, D width, K that of vectors z.
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
        primary_metric: str = "full/mrr",
    ) -> None:
        super().__init__()
        _check_settings(temperature, logq, uniform_negatives, primary_metric)
        if popularity_bias and num_nodes < 1:
            raise ConfigError("a popularity bias needs num_nodes, the nodes of the network")
        self.temperature, self.normalize = temperature, normalize
        self.logq, self.mask_false_negatives = logq, mask_false_negatives
        self.uniform_negatives = uniform_negatives
        self.collaborative = collaborative
        self.primary_metric = primary_metric
        self.log_scale: nn.Parameter | None = None
        if temperature == "learned":
            self.log_scale = nn.Parameter(torch.tensor(math.log(20.0 if normalize else 1.0)))
        self.weight = nn.Parameter(torch.ones(())) if collaborative else None
        self.bias = nn.Parameter(torch.zeros(num_nodes)) if popularity_bias else None
        self.ensemble: LinkEnsemble | None = None

    def set_ensemble(self, ensemble: LinkEnsemble) -> None:
        """From now on count the trained score as `beside` says, and what it adds."""
        self.ensemble = ensemble

    @torch.no_grad()
    def start_bias(self, key_counts: Tensor) -> None:
        """Let b_u start from how often each node [N] is a key: log(1 + count), 0 in the mean.

        A node that never is one starts from the mean, as a new one has it.
        """
        seen = key_counts > 0
        if self.bias is not None and seen.any():
            popularity = key_counts.to(self.bias).log1p()
            self.bias.copy_(torch.where(seen, popularity - popularity[seen].mean(), 0.0))

    def scale(self) -> Tensor | float:
        """What h_v . h_u is multiplied by: 1 / temperature."""
        if self.log_scale is not None:
            return self.log_scale.exp().clamp(max=_LARGEST_SCALE)
        return 1.0 if self.temperature is None else 1.0 / float(self.temperature)

    def factors(
        self, side: Side, node_repr: Tensor, nodes: Tensor, z: Tensor | None = None
    ) -> Tensor:
        """[n, D], nodes [n] and given vectors [n, K] -> [n, D'], whose products are the scores.

        Of a query [scale h ; weight z ; 1], of a key [h ; z ; b], and what is beside them. A new
        node (-1) has no b: its text speaks for it, and the z that is given for the unknown node.
        """
        trained = self._trained(side, node_repr, nodes, z)
        return trained if self.ensemble is None else self.ensemble(side, nodes, trained)

    def new_query(self, node_repr: Tensor, linked: Tensor, z: Tensor | None = None) -> Tensor:
        """Factors [D'] of a source never met: its [1, D], and the nodes of its edges [m]."""
        unknown = torch.full((1,), -1, device=node_repr.device)
        trained = self._trained("query", node_repr, unknown, z)[0]
        return trained if self.ensemble is None else self.ensemble.new_query(trained, linked)

    def loss(
        self,
        query_repr: Tensor,
        key_repr: Tensor,
        *,
        query_nodes: Tensor,
        key_nodes: Tensor,
        key_log_q: Tensor | None = None,
        extra_key_repr: Tensor | None = None,
        extra_nodes: Tensor | None = None,
        extra_log_q: Tensor | None = None,
        known_pairs: LinkMask | Tensor | None = None,
        query_z: Tensor | None = None,
        key_z: Tensor | None = None,
        extra_z: Tensor | None = None,
    ) -> Tensor:
        """Pairs (query i, key i) [n, D] -> the mean of -log softmax at the diagonal.

        Extra keys [m, D] are nobody's positive here: nodes drawn evenly, a cache of earlier
        batches, or the keys gathered from other processes (without this process's own).
        `known_pairs`, a table [n, n + m] or what makes one, is read with `mask_false_negatives`.
        """
        if extra_key_repr is not None:
            if extra_nodes is None:
                raise InputError("extra keys need extra_nodes, the numbers of their nodes")
            key_repr = torch.cat([key_repr, extra_key_repr])
            all_nodes = torch.cat([key_nodes, extra_nodes])
            all_z = None if key_z is None or extra_z is None else torch.cat([key_z, extra_z])
        else:
            all_nodes, all_z, extra_log_q = key_nodes, key_z, None
        with torch.autocast(query_repr.device.type, enabled=False):
            queries = self.factors("query", query_repr, query_nodes, query_z)
            logits = queries @ self.factors("key", key_repr, all_nodes, all_z).T  # [n, n+m]
            if self.logq:
                logits = logits - self.logq * _all_log_q(key_log_q, extra_log_q, len(all_nodes))
            if self.mask_false_negatives:
                false = false_negatives(query_nodes, key_nodes, all_nodes, known_pairs)
                logits = logits.masked_fill(false, -math.inf)
            right = torch.arange(len(queries), device=logits.device)
            return F.cross_entropy(logits, right, reduction="sum") / max(len(queries), 1)

    @torch.no_grad()
    def scorer(
        self,
        query_repr: Tensor,
        candidate_repr: Tensor,
        *,
        query_nodes: Tensor,
        candidate_nodes: Tensor,
        query_z: Tensor | None = None,
        candidate_z: Tensor | None = None,
    ) -> Scorer:
        """The trained score of all queries and candidates, for `evaluate_links` and for search."""
        products = InnerProductScorer(
            self.factors("query", query_repr, query_nodes, query_z),
            self.factors("key", candidate_repr, candidate_nodes, candidate_z),
        )
        return self.whole(products, query_nodes.cpu().numpy(), candidate_nodes.cpu().numpy())

    def whole(
        self, products: Scorer, queries: NDArray[np.int64], candidates: NDArray[np.int64]
    ) -> Scorer:
        """The scores of known nodes whose products are given: with what is no product."""
        ensemble = self.ensemble
        return (
            products if ensemble is None else ensemble.raise_returned(products, queries, candidates)
        )

    def _trained(self, side: Side, node_repr: Tensor, nodes: Tensor, z: Tensor | None) -> Tensor:
        """The factors of what was trained."""
        is_query = side == "query"
        content = node_repr.float()
        if self.normalize:
            content = F.normalize(content, dim=-1)
        parts = [content * self.scale() if is_query else content]
        if self.weight is not None:
            vectors = _given(z)
            parts.append(vectors * self.weight if is_query else vectors)
        if self.bias is not None:
            known = (nodes >= 0).float()
            b = torch.ones_like(known) if is_query else self.bias[nodes.clamp(min=0)] * known
            parts.append(b[:, None])
        return torch.cat(parts, dim=-1)


def false_negatives(
    query_nodes: Tensor,
    key_nodes: Tensor,
    all_nodes: Tensor,
    known_pairs: LinkMask | Tensor | None = None,
) -> Tensor:
    """Keys [n, n + m] that are not negatives of a query, its own positive at the diagonal aside.

    They are the node of its positive met again, a positive of the same query elsewhere in the
    batch, or a known link of the query. New nodes (-1) are never the same.
    """
    same_query = (query_nodes[:, None] == query_nodes) & (query_nodes >= 0)
    same_query |= torch.eye(len(query_nodes), dtype=torch.bool, device=query_nodes.device)
    same_key = (key_nodes[:, None] == all_nodes) & (key_nodes >= 0)[:, None]  # [n, n+m]
    same_key[:, : len(key_nodes)].fill_diagonal_(True)
    false = same_query.float() @ same_key.float() > 0
    if known_pairs is not None:
        if isinstance(known_pairs, LinkMask):
            known_pairs = known_pairs(query_nodes, all_nodes)
        false |= known_pairs
    false[:, : len(key_nodes)].fill_diagonal_(False)
    return false


def sampling_log_q(
    key_counts: Tensor, *, batch_size: int = 1, uniform_negatives: int = 0
) -> Tensor:
    """How likely a key of a batch is candidate u: log q(u) of all [C].

    `key_counts` are the training pairs in which each candidate is the key. Evenly drawn negatives
    beside the `batch_size` pairs make rare nodes likelier. A candidate never drawn is counted
    as half a pair.
    """
    counts = key_counts.double().clamp(min=0.0 if uniform_negatives else 0.5)
    in_batch = counts / counts.sum()
    drawn = batch_size + uniform_negatives
    return (batch_size * in_batch + uniform_negatives / len(counts)).div(drawn).log().float()


def _given(z: Tensor | None) -> Tensor:
    if z is None:
        raise InputError(
            "a collaborative term needs the vectors of queries and keys: query_z, key_z, and "
            "extra_z where there are extra keys"
        )
    return z.float()


def _all_log_q(key_log_q: Tensor | None, extra_log_q: Tensor | None, count: int) -> Tensor:
    if key_log_q is None:
        raise InputError("the logQ correction (logq > 0) needs key_log_q, the log q of each key")
    log_q = key_log_q if extra_log_q is None else torch.cat([key_log_q, extra_log_q])
    if len(log_q) != count:
        raise InputError(
            f"the logQ correction needs one log q per key (got {len(log_q)} for {count} keys); "
            "extra keys bring theirs as extra_log_q"
        )
    return log_q


def _check_settings(
    temperature: float | str | None,
    logq: float,
    uniform_negatives: int,
    primary_metric: str,
) -> None:
    is_above_0 = isinstance(temperature, int | float) and temperature > 0
    if not (temperature is None or temperature == "learned" or is_above_0):
        raise ConfigError(
            f"temperature must be a number above 0, 'learned' or None (got {temperature!r})"
        )
    if not 0 <= logq <= 1:
        raise ConfigError(f"logq must be between 0 (off) and 1 (full correction) (got {logq})")
    if uniform_negatives < 0:
        raise ConfigError(f"uniform_negatives must be 0 or more (got {uniform_negatives})")
    choices = [f"{protocol}/{metric}" for protocol in PROTOCOLS for metric in RANK_METRICS]
    if primary_metric not in choices:
        raise ConfigError(
            f"links are not chosen by '{primary_metric}'; {suggest(primary_metric, choices)}"
        )
