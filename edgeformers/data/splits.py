"""Cutting edges into train, validation and test: at random, per node, by time, with cold nodes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from edgeformers.data.adjacency import group_rows
from edgeformers.data.numba_kernels import cut_groups
from edgeformers.data.random import hash_keys
from edgeformers.data.types import IntArray, Side
from edgeformers.errors import ConfigError, InputError, suggest

TRAIN, VAL, TEST, PROFILE, NONE = 0, 1, 2, 3, 255
#: `profile` is what is known of a node that training has not met: read, but never learned from.
PARTS: Mapping[str, int] = {
    "train": TRAIN,
    "val": VAL,
    "test": TEST,
    "profile": PROFILE,
    "none": NONE,
}
#: Words people use for the parts in a split column.
PART_NAMES = {
    **dict.fromkeys(("train", "training"), TRAIN),
    **dict.fromkeys(("val", "valid", "validation", "dev"), VAL),
    **dict.fromkeys(("test", "testing"), TEST),
    "profile": PROFILE,
}

How = Literal[
    "random",
    "per_source",
    "per_target",
    "chronological",
    "chronological_per_source",
    "chronological_per_target",
    "cold_source",
    "cold_target",
    "column",
]
Unseen = Literal["keep", "drop", "drop_source", "drop_target"]
Codes = NDArray[np.uint8]

NO_TIME = np.iinfo(np.int64).min

MOST_PROFILE = 8  # edges of a held-out node that are its profile, at most

_SHARES = (0.7, 0.1, 0.2)  # the paper's
_COLD_STREAM = 0xC01D  # names the draws of held-out nodes among all that use a seed


@dataclass(frozen=True, kw_only=True)
class SplitConfig:
    """How edges are cut into train, validation and test.

    Of n edges (per node: of the node's n edges) the first int(0.7 n) train, those up to
    int(0.8 n) validate and the rest test, for fractions 0.7 / 0.1 / 0.2. `unseen` says what
    becomes of validation and test edges whose source or target has no training edge: `drop`
    them (their code becomes 255), as the paper does on one side, or `keep` them as cold. Seeds
    reproduce a split exactly.

    `cold_source` and `cold_target` cut the nodes of one side instead: 0.1 of them validate and
    0.2 test, and training has none of their edges. Half of such a node's edges (at least one, at
    most 8) are its profile, read around it but never learned from; the others are asked for.
    """

    name: str = "edge"
    how: How = "random"
    fractions: tuple[float, float, float] = _SHARES
    seed: int = 0
    unseen: Unseen = "keep"
    new_pairs: bool = False  # drop validation and test edges of pairs that training has
    column: str = "split"  # for how="column": the column whose words name the part

    def __post_init__(self) -> None:
        if not self.name.replace("-", "_").isidentifier():
            raise ConfigError(
                f"a split's name is made of letters, digits, - and _ (got '{self.name}')"
            )
        for setting, value, kinds in (
            ("how", self.how, get_args(How)),
            ("unseen", self.unseen, get_args(Unseen)),
        ):
            if value not in kinds:
                raise ConfigError(f"split {setting} '{value}' is unknown; {suggest(value, kinds)}")
        if min(self.fractions) < 0 or abs(sum(self.fractions) - 1) > 1e-6:
            raise ConfigError(
                f"split fractions must be three shares that add up to 1 (got {self.fractions})"
            )
        if self.is_cold and self.unseen in ("drop", self.how.replace("cold", "drop")):
            raise ConfigError(
                f"the split {self.how.replace('_', '-')} is of nodes that training has not seen, "
                f"which '{self.unseen}' would drop; drop those of the other side, or keep all"
            )

    @property
    def needs_times(self) -> bool:
        """Whether edges are cut in the order of their times."""
        return self.how.startswith("chronological")

    @property
    def is_cold(self) -> bool:
        """Whether nodes are held out entirely."""
        return self.how in ("cold_source", "cold_target")

    @classmethod
    def parse(cls, text: str) -> "SplitConfig":
        """A split as on the command line: `how`, `name=how`, `name=how:0.8/0.1/0.1`.

        A column is named as `name=column:split_edge`. At the end, `+drop`, `+drop-source` or
        `+drop-target` drops what training has not seen, `+new-pairs` drops pairs that it has,
        and `+seed-7` sets the seed.
        """
        name, named, rest = text.partition("=")
        if not named or ":" in name:  # the sign stands in the name of a column
            name, rest = "", text
        rest, *options = rest.split("+")
        how, _, detail = rest.partition(":")
        given: dict[str, Any] = {"how": how.replace("-", "_"), "name": name or how}
        if detail and how == "column":
            given["column"] = detail
        elif detail:
            given["fractions"] = _parse_fractions(text, detail)
        for option in options:
            if option.startswith("seed-") and option[5:].isdigit():
                given["seed"] = int(option[5:])
            elif option == "new-pairs":
                given["new_pairs"] = True
            else:
                given["unseen"] = option.replace("-", "_")
        return cls(**given)

    def to_text(self) -> str:
        """The split as `parse` reads it."""
        shares = "" if self.fractions == _SHARES else ":" + "/".join(map(str, self.fractions))
        detail = f":{self.column}" if self.how == "column" else shares
        options = [self.unseen.replace("_", "-")] if self.unseen != "keep" else []
        options += ["new-pairs"] if self.new_pairs else []
        options += [f"seed-{self.seed}"] if self.seed else []
        return "+".join([f"{self.name}={self.how.replace('_', '-')}{detail}", *options])

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "SplitConfig":
        """What `to_dict` gave, also after it has been written as JSON."""
        return cls(**{**values, "fractions": tuple(values["fractions"])})


#: What a network gets when no split is asked for: one for classifying edges, one for links.
DEFAULT_SPLITS = (
    SplitConfig(name="edge", how="random"),
    SplitConfig(name="link", how="per_source"),
)


@dataclass(frozen=True, kw_only=True)
class EdgeArrays:
    """What a split may look at: the ends of every edge and, where known, time and columns."""

    src: IntArray
    dst: IntArray
    num_nodes: int
    directed: bool = True  # whether a to b and b to a are two pairs
    times: NDArray[np.int64] | None = None
    columns: Mapping[str, Codes] = field(default_factory=dict)  # columns that name the part


def make_split(config: SplitConfig, edges: EdgeArrays) -> Codes:
    """The part of every edge as a code (0 train, 1 validation, 2 test, 255 none)."""
    if config.how == "column":
        if config.column not in edges.columns:
            raise InputError(
                f"the split '{config.name}' needs the column '{config.column}', which is not "
                "there; name the split column with --split-column, or keep it with --keep "
                f"{config.column}"
            )
        codes = edges.columns[config.column].copy()
    elif config.how in ("random", "chronological"):
        codes = _cut(_sort_keys(config, edges), config.fractions)
    elif config.is_cold:
        codes = _hold_out(config, edges)
    else:
        node = edges.src if config.how.endswith("per_source") else edges.dst
        indptr, rows = group_rows(node, edges.num_nodes)
        codes = np.empty(len(node), np.uint8)
        cut_groups(indptr, rows, _sort_keys(config, edges), *_ends(config.fractions), codes)
    if config.new_pairs or config.is_cold:
        codes[_known_pairs(codes, edges)] = NONE
    return _drop_unseen(codes, config.unseen, edges)


def cold_edges(codes: Codes, edges: EdgeArrays, side: Side) -> NDArray[np.bool_]:
    """Validation and test edges whose end on `side` has no training edge at all."""
    seen = seen_in_training(codes, edges)
    end = edges.src if side == "source" else edges.dst
    cold: NDArray[np.bool_] = ((codes == VAL) | (codes == TEST)) & ~seen[end]
    return cold


def seen_in_training(codes: Codes, edges: EdgeArrays) -> NDArray[np.bool_]:
    """Whether each node touches a training edge."""
    seen = np.zeros(edges.num_nodes, bool)
    training = codes == TRAIN
    seen[edges.src[training]] = True
    seen[edges.dst[training]] = True
    return seen


def count_parts(codes: Codes) -> dict[str, int]:
    """How many edges each part has; most splits have no profiles."""
    counts = np.bincount(codes, minlength=256)
    found = {part: int(counts[code]) for part, code in PARTS.items()}
    return {part: count for part, count in found.items() if count or part != "profile"}


def _parse_fractions(text: str, shares: str) -> tuple[float, ...]:
    try:
        fractions = tuple(float(share) for share in shares.split("/"))
    except ValueError:
        fractions = ()
    if len(fractions) != 3:
        raise ConfigError(f"split '{text}': write the shares as 0.7/0.1/0.2 (got '{shares}')")
    return fractions


def _sort_keys(config: SplitConfig, edges: EdgeArrays) -> NDArray[np.uint64]:
    """Keys in whose order edges are cut: a hash of the edge number, or its time."""
    if not config.needs_times:
        return hash_keys(config.seed, np.arange(len(edges.src), dtype=np.uint64))
    if edges.times is None:
        raise InputError(f"the split '{config.how}' needs times; name the time column with --time")
    missing = np.flatnonzero(edges.times == NO_TIME)
    if len(missing):
        raise InputError(
            f"the split '{config.how}' needs a time on every edge; {len(missing):,} have none, "
            f"the first is edge {missing[0]:,}"
        )
    return (edges.times.astype(np.uint64)) ^ np.uint64(1 << 63)  # order of signed times kept


def _cut(keys: NDArray[np.uint64], fractions: tuple[float, float, float]) -> Codes:
    """Lowest keys train, the next validate, the rest test; equal keys in the order of edges."""
    n = len(keys)
    ends = [int(share * n) for share in _ends(fractions)]
    codes = np.empty(n, np.uint8)
    order = np.argsort(keys, kind="stable")
    for code, start, stop in zip((TRAIN, VAL, TEST), [0, *ends], [*ends, n], strict=True):
        codes[order[start:stop]] = code
    return codes


def _ends(fractions: tuple[float, float, float]) -> tuple[float, float]:
    """Where training and validation end. Products with them are cut in binary, as published
    splits are: 0.7 * 734,640 makes 514,247 training edges, not 514,248.
    """
    return fractions[0], round(fractions[0] + fractions[1], 12)


def _hold_out(config: SplitConfig, edges: EdgeArrays) -> Codes:
    """All edges of some nodes out of training, of each node a few as its profile.

    Where all nodes are of one kind, an edge whose other end is held out too is in no part.
    """
    ends = (edges.src, edges.dst)
    node, other = ends if config.how == "cold_source" else ends[::-1]
    nodes = np.unique(node)
    part = np.full(edges.num_nodes, TRAIN, np.uint8)
    part[nodes] = _cut(hash_keys(config.seed, _COLD_STREAM, nodes), config.fractions)
    codes = part[node]
    codes[part[other] != TRAIN] = NONE
    held = np.flatnonzero((codes == VAL) | (codes == TEST))
    place, count = _places(node[held], hash_keys(config.seed, held))
    codes[held[place < np.clip(count // 2, 1, MOST_PROFILE)]] = PROFILE
    return codes


def _places(node: IntArray, keys: NDArray[np.uint64]) -> tuple[IntArray, IntArray]:
    """The place of each edge among those of its node in the order of keys, and how many there are.

    Both are numbers per edge [n].
    """
    order = np.lexsort((keys, node))
    _, first, which, counts = np.unique(
        node[order], return_index=True, return_inverse=True, return_counts=True
    )
    place, size = np.empty(len(node), np.int64), np.empty(len(node), np.int64)
    place[order], size[order] = np.arange(len(node)) - first[which], counts[which]
    return place, size


def _known_pairs(codes: Codes, edges: EdgeArrays) -> NDArray[np.bool_]:
    """Validation and test edges of two nodes that an edge of training or a profile joins."""
    first, second = edges.src, edges.dst
    if not edges.directed:
        first, second = np.minimum(first, second), np.maximum(first, second)
    pairs = first.astype(np.int64) * edges.num_nodes + second
    later = np.flatnonzero((codes == VAL) | (codes == TEST))
    known = np.zeros(len(codes), bool)
    known[later] = np.isin(pairs[later], pairs[(codes == TRAIN) | (codes == PROFILE)])
    return known


def _drop_unseen(codes: Codes, unseen: Unseen, edges: EdgeArrays) -> Codes:
    for side in get_args(Side):
        if unseen in ("drop", f"drop_{side}"):
            codes[cold_edges(codes, edges, side)] = NONE
    return codes
