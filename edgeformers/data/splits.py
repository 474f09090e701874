"""Train/validation/test splits of edges: random, per node, chronological, or with cold nodes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from edgeformers.data import scratch
from edgeformers.data.jit import jit
from edgeformers.data.numba_kernels import cut_groups, rank_in_groups, rows_of_groups
from edgeformers.data.random import hash_keys
from edgeformers.data.scratch import count_values, row_slices, rows_where, scratch_array
from edgeformers.data.types import Ids, IntArray, Mask, Side, SplitCodes
from edgeformers.decode import decode
from edgeformers.errors import ConfigError, InputError, suggest

TRAIN, VAL, TEST, PROFILE, NONE = 0, 1, 2, 3, 255
#: The parts of a split and their codes. `profile` edges are the context of a node without
#: training edges: they are sampled around that node, but never trained on.
PARTS: Mapping[str, int] = {
    "train": TRAIN,
    "val": VAL,
    "test": TEST,
    "profile": PROFILE,
    "none": NONE,
}
#: Names of the parts that are recognized in a split column.
PART_ALIASES = {
    **dict.fromkeys(("train", "training"), TRAIN),
    **dict.fromkeys(("val", "valid", "validation", "dev"), VAL),
    **dict.fromkeys(("test", "testing"), TEST),
    "profile": PROFILE,
}

SplitMethod = Literal[
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

NO_TIME = np.iinfo(np.int64).min
MAX_PROFILE = 8  # profile edges per held-out node

DIGIT = 16  # bits of a key that are counted at a time

SortKeys = Callable[[Ids], NDArray[np.uint64]]  # the keys of edges with these numbers

_FRACTIONS = (0.7, 0.1, 0.2)  # the paper's
_COLD_STREAM = 0xC01D  # random stream of the held-out nodes


@dataclass(frozen=True, kw_only=True)
class SplitConfig:
    """How edges are divided into train, validation and test. The seed determines the split.

    With fractions 0.7 / 0.1 / 0.2, the first int(0.7 n) of n edges (of each node's n edges, for
    the per-node methods) are training edges, those up to int(0.8 n) validation, the rest test.

    `cold_source` and `cold_target` divide the nodes of one side instead: 0.1 of them are for
    validation and 0.2 for test, and none of their edges are training edges. Half of such a
    node's edges (at least 1, at most 8) become its profile; the others are to be predicted.

    `unseen` tells what happens to validation and test edges whose source or target has no
    training edge: `keep` them, or `drop` them (code 255), as the paper does for one side.
    """

    name: str = "edge"
    how: SplitMethod = "random"
    fractions: tuple[float, float, float] = _FRACTIONS
    seed: int = 0
    unseen: Unseen = "keep"
    new_pairs: bool = False  # drop validation and test edges between pairs linked in training
    column: str = "split"  # for how="column": the column with the name of each edge's part

    def __post_init__(self) -> None:
        if not self.name.replace("-", "_").isidentifier():
            raise ConfigError(
                f"a split name may contain letters, digits, - and _ (got '{self.name}')"
            )
        for setting, value, choices in (
            ("split", self.how, get_args(SplitMethod)),
            ("split option", self.unseen, get_args(Unseen)),
        ):
            if value not in choices:
                written, *known = map(_as_written, (value, *choices))
                known += ["new-pairs", "seed-7"] if setting == "split option" else []
                raise ConfigError(f"unknown {setting} '{written}'; {suggest(written, known)}")
        if min(self.fractions) < 0 or abs(sum(self.fractions) - 1) > 1e-6:
            raise ConfigError(
                f"split fractions must be three shares that sum to 1 (got {self.fractions})"
            )
        if self.is_cold and self.unseen in ("drop", self.how.replace("cold", "drop")):
            raise ConfigError(
                f"the split {_as_written(self.how)} tests nodes without training edges, which "
                f"'{_as_written(self.unseen)}' would drop; use 'keep', or drop those of the other "
                "side"
            )

    @property
    def needs_times(self) -> bool:
        """Whether edges are ordered by time."""
        return self.how.startswith("chronological")

    @property
    def is_cold(self) -> bool:
        """Whether some nodes have no training edges at all."""
        return self.how in ("cold_source", "cold_target")

    @classmethod
    def parse(cls, text: str) -> "SplitConfig":
        """A split as written on the command line: `how`, `name=how`, `name=how:0.8/0.1/0.1`.

        For a column: `name=column:split_edge`. Options follow at the end: `+drop`, `+drop-source`
        or `+drop-target` (see `unseen`), `+new-pairs`, and `+seed-7`.
        """
        name, named, rest = text.partition("=")
        if not named or ":" in name:  # the = belongs to a column name
            name, rest = "", text
        rest, *options = rest.split("+")
        how, _, detail = rest.partition(":")
        values: dict[str, Any] = {"how": how.replace("-", "_"), "name": name or how}
        if detail and how == "column":
            values["column"] = detail
        elif detail:
            values["fractions"] = _parse_fractions(text, detail)
        for option in options:
            if option.startswith("seed-") and option[5:].isdigit():
                values["seed"] = int(option[5:])
            elif option == "new-pairs":
                values["new_pairs"] = True
            else:
                values["unseen"] = option.replace("-", "_")
        return cls(**values)

    def to_text(self) -> str:
        """The split in the syntax of `parse`."""
        shares = "" if self.fractions == _FRACTIONS else ":" + "/".join(map(str, self.fractions))
        detail = f":{self.column}" if self.how == "column" else shares
        options = [_as_written(self.unseen)] if self.unseen != "keep" else []
        options += ["new-pairs"] if self.new_pairs else []
        options += [f"seed-{self.seed}"] if self.seed else []
        return "+".join([f"{self.name}={_as_written(self.how)}{detail}", *options])

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "SplitConfig":
        """The inverse of `to_dict`, also after a round trip through JSON."""
        return decode(cls, values, raises=ConfigError)


#: The splits of a network by default: one for edge classification, one for link prediction.
DEFAULT_SPLITS = (
    SplitConfig(name="edge", how="random"),
    SplitConfig(name="link", how="per_source"),
)
#: Another one by default if every edge has a time; links are then trained on it, see `run_config`.
FUTURE_SPLIT = SplitConfig(name="future", how="chronological")


@dataclass(frozen=True, kw_only=True)
class EdgeList:
    """The edges to split: their ends [E] and, if known, times [E] and split columns [E]."""

    src: IntArray
    dst: IntArray
    num_nodes: int
    directed: bool = True  # whether (a, b) and (b, a) are different pairs
    times: Ids | None = None
    columns: Mapping[str, SplitCodes] = field(default_factory=dict)  # for how="column"
    place: Callable[[int], str] | None = None  # the file and line of an edge, if known


def make_split(config: SplitConfig, edges: EdgeList) -> SplitCodes:
    """The part of every edge (see `PARTS`)."""
    if config.how == "column":
        if config.column not in edges.columns:
            raise InputError(missing_column(config))
        codes = edges.columns[config.column].copy()
    elif config.is_cold:
        codes = _hold_out_nodes(config, edges)
    else:
        codes = _cut_all(config, edges)
        if config.needs_times and (problem := _without_order(config, codes, edges)):
            raise InputError(
                f"the split '{config.name}' is {_as_written(config.how)}, but {problem}; "
                "use a random split"
            )
    if config.new_pairs or config.is_cold:
        codes[_has_known_pair(codes, edges)] = NONE
    for side in get_args(Side):
        if config.unseen in ("drop", f"drop_{side}"):
            codes[cold_edges(codes, edges, side)] = NONE
    return codes


def split_future(edges: EdgeList) -> tuple[SplitCodes | None, str]:
    """The codes of FUTURE_SPLIT; or None, and if edges have times, why and what to do.

    Every edge needs a time, and all test edges have to be later than training.
    """
    if edges.times is None:
        return None, ""
    if problem := _missing_times(edges):
        return None, f"{problem}; fill in the times or remove these rows"
    codes = _cut_all(FUTURE_SPLIT, edges)
    (_, end), (start, _) = (_first_and_last(edges.times, codes, [part]) for part in (TRAIN, TEST))
    if NO_TIME < end < start:
        return codes, ""
    is_same = edges.times.min() == edges.times.max()
    remedy = (
        "choose the column with the real times" if is_same else "use times with a finer resolution"
    )
    return None, f"{_overlap('not all test edges are', edges, start)}; {remedy}"


def missing_column(config: SplitConfig) -> str:
    """The error message if the table lacks the column of a split."""
    return (
        f"the split '{config.name}' needs the column '{config.column}', which the table does not "
        f"have; name the split column with `split=`, or keep it with `keep=`"
    )


def cold_edges(codes: SplitCodes, edges: EdgeList, side: Side) -> Mask:
    """Whether each edge is a validation or test edge whose `side` has no training edge."""
    return _is_cold(codes, edges, side, seen_in_training(codes, edges), slice(None))


def count_cold_edges(codes: SplitCodes, edges: EdgeList, side: Side) -> int:
    """The number of `cold_edges`."""
    seen = seen_in_training(codes, edges)
    rows = row_slices(len(codes))
    return sum(int(_is_cold(codes, edges, side, seen, part).sum()) for part in rows)


def _is_cold(codes: SplitCodes, edges: EdgeList, side: Side, seen: Mask, rows: slice) -> Mask:
    end = edges.src if side == "source" else edges.dst
    cold: Mask = ((codes[rows] == VAL) | (codes[rows] == TEST)) & ~seen[end[rows]]
    return cold


def seen_in_training(codes: SplitCodes, edges: EdgeList) -> Mask:
    """Whether each node has a training edge [V]."""
    seen = np.zeros(edges.num_nodes, bool)
    for rows in row_slices(len(codes)):
        training = codes[rows] == TRAIN
        seen[edges.src[rows][training]] = True
        seen[edges.dst[rows][training]] = True
    return seen


def count_parts(codes: SplitCodes) -> dict[str, int]:
    """The number of edges in each part; `profile` only if it has any."""
    counts = np.zeros(256, np.int64)
    for rows in row_slices(len(codes)):
        counts += np.bincount(codes[rows], minlength=256)
    by_part = {part: int(counts[code]) for part, code in PARTS.items()}
    return {part: count for part, count in by_part.items() if count or part != "profile"}


def is_in_parts(codes: SplitCodes, parts: Sequence[int]) -> Mask:
    """Whether each edge is in one of the parts, given by their codes."""
    table = np.zeros(256, bool)
    table[list(parts)] = True
    return table[codes]


def has_profiles(codes: SplitCodes) -> bool:
    """Whether a split holds nodes out and gives them a profile."""
    return any((codes[rows] == PROFILE).any() for rows in row_slices(len(codes)))


def _as_written(name: str) -> str:
    """The name of a method or option as the command line takes it."""
    return name.replace("_", "-")


def _parse_fractions(text: str, shares: str) -> tuple[float, ...]:
    try:
        fractions = tuple(float(share) for share in shares.split("/"))
    except ValueError:
        fractions = ()
    if len(fractions) != 3:
        raise ConfigError(f"split '{text}': write the fractions as 0.7/0.1/0.2 (got '{shares}')")
    return fractions


def _sort_keys(config: SplitConfig, edges: EdgeList) -> SortKeys:
    """Keys by which edges are ordered before cutting: a hash of the edge number, or the time."""
    if not config.needs_times:
        return lambda rows: hash_keys(config.seed, rows)
    times = edges.times
    if times is None:
        raise InputError(
            f"the split '{config.name}' needs times; name the time column with `time=`"
        )
    if problem := _missing_times(edges):
        raise InputError(
            f"the {_as_written(config.how)} split '{config.name}' needs a time for every edge, but "
            f"{problem}; fill in the times, remove these rows, or use a random split"
        )
    # flipping the sign bit keeps the order of signed times
    return lambda rows: times[rows].astype(np.uint64) ^ np.uint64(1 << 63)


def _missing_times(edges: EdgeList) -> str:
    """How many edges have no time, and which is the first; empty if all have one."""
    times = edges.times
    assert times is not None
    missing = rows_where(lambda rows: times[rows] == NO_TIME, len(times))
    if not len(missing):
        return ""
    first = int(missing[0])
    place = (edges.place(first) if edges.place else "") or f"edge {first:,}"
    return f"there is no time for {len(missing):,} of {len(times):,} edges, the first is {place}"


def _without_order(config: SplitConfig, codes: SplitCodes, edges: EdgeList) -> str:
    """Why a split by time has no order; empty if some held-out edge is later than training.

    Where the edges of each node are cut, it is enough that not all times are equal.
    """
    assert edges.times is not None
    first, end = _first_and_last(edges.times, codes, [TRAIN])
    start, last = _first_and_last(edges.times, codes, [VAL, TEST])
    if NO_TIME in (end, last):  # there is nothing to train on, or nothing to test
        return ""
    needed = end if config.how == "chronological" else min(first, start)
    return "" if max(end, last) > needed else _overlap("no held-out edge is", edges, start)


def _overlap(which: str, edges: EdgeList, start: int) -> str:
    """Which edges are later than training, the time of the first, and how many times there are."""
    assert edges.times is not None
    count, different = len(edges.times), len(np.unique(edges.times))
    begin = np.datetime_as_string(np.datetime64(start, "us"), "s")
    if different == 1:
        return f"all edges have the same time, {begin}"
    return (
        f"{which} later than training (the first is from {begin}, and the {count:,} edges have "
        f"{different:,} different times)"
    )


def _first_and_last(times: Ids, codes: SplitCodes, parts: Sequence[int]) -> tuple[int, int]:
    """The first and the last time of some parts; the largest number and NO_TIME if empty."""
    first, last = np.iinfo(np.int64).max, NO_TIME
    for rows in row_slices(len(codes)):
        own = times[rows][is_in_parts(codes[rows], parts)]
        first, last = int(own.min(initial=first)), int(own.max(initial=last))
    return first, last


def _cut_all(config: SplitConfig, edges: EdgeList) -> SplitCodes:
    """Train, validation and test of all edges, or of each node's, in the order of the method."""
    nodes = {"per_source": edges.src, "per_target": edges.dst}
    node = nodes.get(config.how.removeprefix("chronological_"))
    return _cut(_sort_keys(config, edges), len(edges.src), config.fractions, node)


def _cut(
    keys: SortKeys,
    count: int,
    fractions: tuple[float, float, float],
    node: IntArray | None = None,
) -> SplitCodes:
    """Train, validation and test in the order of the keys, of all edges or of each node's.

    Ties keep the order of edges. Products with the fractions are truncated in binary, as in the
    published splits: 0.7 * 734,640 gives 514,247 training edges, not 514,248. Besides the result,
    memory does not grow with the edges, or with 1/32 of them.
    """
    ends = np.array([fractions[0], round(fractions[0] + fractions[1], 12)])
    codes = scratch_array((count,), np.uint8)
    codes[:] = 0
    if node is None:
        for end in np.floor(ends * count).astype(np.int64):
            _add_from_rank(codes, keys, int(end))
        return codes
    indptr = np.append(0, np.cumsum(count_values(node)))
    limit = max(4 * scratch.BLOCK, count // 32)  # edges ranked at a time, unless a node has more
    first = 0
    while first < len(indptr) - 1:
        last = int(np.searchsorted(indptr, indptr[first] + limit, side="right")) - 1
        last = max(last, first + 1)
        rows = jit(rows_of_groups, count)(node, indptr, first, last)
        own = indptr[first : last + 1] - indptr[first]
        jit(cut_groups, len(rows))(rows, keys(rows), own, ends, codes)
        first = last
    return codes


def _add_from_rank(codes: SplitCodes, keys: SortKeys, rank: int) -> None:
    """Add 1 to the codes of all edges from this rank on, by the order of the keys.

    The key at the rank is found digit by digit, by counting, until few candidates remain.
    """
    prefix, shift, before = np.uint64(0), 64, 0  # keys below the prefix, already counted
    if rank >= len(codes):
        return
    while shift > 0:
        shift -= DIGIT
        counts = np.zeros(1 << DIGIT, np.int64)
        for rows in row_slices(len(codes)):
            block = keys(np.arange(rows.start, rows.stop)) >> np.uint64(shift)
            digits = block[block >> np.uint64(DIGIT) == prefix] & np.uint64((1 << DIGIT) - 1)
            counts += np.bincount(digits.astype(np.int64), minlength=1 << DIGIT)
        totals = before + np.cumsum(counts)
        digit = int(np.searchsorted(totals, rank, side="right"))
        before = int(totals[digit] - counts[digit])
        prefix = (prefix << np.uint64(DIGIT)) | np.uint64(digit)
    for rows in row_slices(len(codes)):
        block = keys(np.arange(rows.start, rows.stop))
        ties = np.flatnonzero(block == prefix)
        codes[rows] += block > prefix
        codes[rows.start + ties[max(rank - before, 0) :]] += 1
        before += len(ties)


def _ranks(keys: NDArray[np.uint64], node: IntArray) -> tuple[Ids, Ids]:
    """The rank of each edge by key among those of its node, and how many these are.

    Ties keep the order of edges.
    """
    rank = np.empty(len(keys), np.int64)
    counts = np.bincount(node)
    jit(rank_in_groups, len(keys))(node, keys, np.append(0, np.cumsum(counts)), rank)
    return rank, counts[node]


def _hold_out_nodes(config: SplitConfig, edges: EdgeList) -> SplitCodes:
    """Cold split: hold out all edges of some nodes, and turn a few of each into its profile.

    With one node type, an edge whose other end is held out too belongs to no part.
    """
    ends = (edges.src, edges.dst)
    node, other = ends if config.how == "cold_source" else ends[::-1]
    nodes = np.unique(node)
    part = np.full(edges.num_nodes, TRAIN, np.uint8)
    keys = hash_keys(config.seed, _COLD_STREAM, nodes)
    part[nodes] = _cut(lambda rows: keys[rows], len(nodes), config.fractions)
    codes = part[node]
    codes[part[other] != TRAIN] = NONE
    held_out = np.flatnonzero((codes == VAL) | (codes == TEST))
    rank, count = _ranks(hash_keys(config.seed, held_out), node[held_out])
    codes[held_out[rank < np.clip(count // 2, 1, MAX_PROFILE)]] = PROFILE
    return codes


def _has_known_pair(codes: SplitCodes, edges: EdgeList) -> Mask:
    """Validation and test edges whose two nodes also share a training or profile edge."""
    first, second = edges.src, edges.dst
    if not edges.directed:
        first, second = np.minimum(first, second), np.maximum(first, second)
    pairs = first.astype(np.int64) * edges.num_nodes + second
    held_out = np.flatnonzero((codes == VAL) | (codes == TEST))
    known = np.zeros(len(codes), bool)
    known[held_out] = np.isin(pairs[held_out], pairs[(codes == TRAIN) | (codes == PROFILE)])
    return known
