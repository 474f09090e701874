"""LinkIndex: the vectors of a run's nodes in files, and a search over its candidates.

With an index, nodes are not encoded when they are used, except those with new edges.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from edgeformers import __version__, distributed
from edgeformers.data.storage import (
    blocks,
    check_files,
    fingerprint_folder,
    open_array,
    read_checked_record,
    write_record,
)
from edgeformers.data.types import Ids, Side
from edgeformers.decode import decode
from edgeformers.errors import FormatError, InputError
from edgeformers.files import atomic_folder, check_no_foreign_files
from edgeformers.inference.compressed import Compressed
from edgeformers.inference.encode import Vectors
from edgeformers.inference.fitted import network_fingerprint
from edgeformers.inference.saved_model import model_fingerprint, tensors_fingerprint
from edgeformers.inference.vector_search import (
    SMALL,
    BoundedSearch,
    InvertedLists,
    KeySearch,
    Wanted,
)
from edgeformers.locks import single_writer
from edgeformers.progress import print_message, progress_bar

if TYPE_CHECKING:
    from edgeformers.inference.fitted_links import FittedLinkPredictor
    from edgeformers.inference.link_scorer import LinkScorer

FOLDER, RECORD = "index", "index.json"
FORMAT, SCHEMA_VERSION = "edgeformers-index", 4
CHUNK = 4_096  # nodes encoded and written together
SAMPLED = 2_000  # other sources, whose queries shape the search
LARGE = 300_000  # targets up to which search is exact
ENCODED = 0.9  # share of nodes whose vectors must be there to build an index after training
WANTED_RECALL = 0.995  # at 10; a little more than LEAST_RECALL, which other sources should get
LEAST_RECALL = 0.99
TESTED = 200  # sources whose queries measure recall
LOW_RECALL = (
    "IVF finds only {:.3f} of the 10 best targets, which form no clusters; the index searches "
    "exactly instead, which takes longer"
)
#: Files of text vectors. In a bipartite network every node is read on its own side only.
NODES, TARGETS, KEYS = "nodes.npy", "targets.npy", "keys.npy"
SEARCH = ("basis.npy", *(f"{part.name}.npy" for part in fields(Compressed)))
OLD = ("leading.npy", "scale.npy")  # of the first version
FILES = (RECORD, NODES, TARGETS, KEYS, *SEARCH, "ivf.faiss", *OLD)


@dataclass(frozen=True, kw_only=True)
class IndexFacts:
    """What an index holds, how it searches, and how well."""

    kind: str  # "exact" or "ivf"
    targets: int
    width: int  # of all components together
    recall_at_10: float  # of measured queries
    queries: int  # sources whose queries were measured
    seconds: float  # that the index took to build
    bytes: int
    settings: dict[str, int]  # of the search


@dataclass(frozen=True, kw_only=True)
class LinkIndex:
    """An index in a folder. Arrays are mapped anew for every caller, whose changes stay its own."""

    folder: Path
    facts: IndexFacts

    @classmethod
    def build(
        cls, fitted: "FittedLinkPredictor", folder: str | PathLike[str], *, show: bool = True
    ) -> "LinkIndex":
        """Write the index of a model with its network, in place of an earlier one."""
        out, started = Path(folder).expanduser(), time.perf_counter()
        original = replace(fitted, index_folder=None)  # without edges that arrived later
        with (
            single_writer(out),
            atomic_folder(out, overwrite=True, check=_check_replaceable) as temporary,
        ):
            _write_vectors(original, temporary, show)
            _write_keys(original.scorer, temporary)
            facts = _add_search(original, temporary, show)
            files = fingerprint_folder(temporary)
            size = sum(file["bytes"] for file in files.values())
            facts = replace(facts, bytes=size, seconds=round(time.perf_counter() - started, 2))
            identity = {"format": FORMAT, "schema_version": SCHEMA_VERSION, **_identity(original)}
            record = {**identity, "library_version": __version__, **asdict(facts), "files": files}
            write_record(temporary / RECORD, record)
        return cls(folder=out, facts=facts)

    @classmethod
    def open(cls, folder: str | PathLike[str], fitted: "FittedLinkPredictor") -> "LinkIndex":
        """The index in a folder; that of another model or network is an InputError."""
        path = Path(folder).expanduser()
        remedy = f"build it again with: edgeformers index {path.parent}"
        try:
            record = read_checked_record(path / RECORD)
            if (record.get("format"), record.get("schema_version")) != (FORMAT, SCHEMA_VERSION):
                raise ValueError("another version of the library wrote it")
            facts = decode(IndexFacts, {name: record.get(name) for name in _FACTS}, path=RECORD)
            check_files(path, record["files"], verify="changed")
        except (ValueError, KeyError) as error:  # a FormatError is a ValueError
            reason = str(error).partition(";")[0]  # the remedy is another one
            raise FormatError(f"{path} cannot be used ({reason}); {remedy}") from error
        for name, expected in _identity(fitted).items():
            if record.get(name) != expected:
                what = "network" if name == "network" else "model"
                raise InputError(f"{path} is the index of another {what}; {remedy}, or remove it")
        return cls(folder=path, facts=facts)

    def text_vectors(self) -> dict[Side, Vectors]:
        """The text vectors [N, D] of all nodes, as sources and as targets."""
        return _text_vectors(self.folder)

    def keys(self) -> Vectors:
        """The keys [C, R] of all candidates."""
        return _mapped(self.folder / KEYS)

    def search(self) -> KeySearch | None:
        """The search over `keys`; None if they are so few that all are multiplied."""
        if self.facts.kind == "ivf":
            return InvertedLists.load(self.folder, self.facts.settings["probes"])
        paths = [self.folder / name for name in SEARCH]
        if not paths[0].exists():
            return None
        basis, *compressed = map(_mapped, paths)
        return BoundedSearch(Compressed(*compressed), basis)


_FACTS = tuple(IndexFacts.__dataclass_fields__)


def index_if_encoded(fitted: "FittedLinkPredictor", folder: str | PathLike[str]) -> None:
    """Build the index of a model that has just encoded nearly all nodes, since it costs little."""
    network = fitted.network
    kinds = ("nodes",) if network.graph.is_bipartite else get_args(Side)
    is_encoded = network.vectors is not None and all(
        network.vectors.share(kind) >= ENCODED for kind in kinds
    )
    if is_encoded and len(fitted.scorer.candidates) <= LARGE and distributed.world_size() == 1:
        LinkIndex.build(fitted, folder, show=False)


def _identity(fitted: "FittedLinkPredictor") -> dict[str, str]:
    """What an index depends on."""
    return {
        "model": model_fingerprint(fitted.model),
        "head": tensors_fingerprint(fitted.head_tensors()),
        "network": network_fingerprint(fitted.network.graph),
    }


def _check_replaceable(folder: Path) -> None:
    check_no_foreign_files(folder, lambda name: name in FILES)


def _write_vectors(fitted: "FittedLinkPredictor", folder: Path, show: bool) -> None:
    """Write the text vectors of all nodes, and let the model read them from now on."""
    graph, text = fitted.network.graph, fitted.text
    sides: dict[str, Side] = {NODES: "source"}
    if not graph.is_bipartite:
        sides[TARGETS] = "target"
    for name, side in sides.items():
        nodes, encode = np.arange(graph.num_nodes), partial(text.encode, side=side)
        _write_rows(folder / name, nodes, fitted.width, encode, show=show)
    text.stored = _text_vectors(folder)


def _write_keys(scorer: "LinkScorer", folder: Path) -> None:
    width = scorer.keys(scorer.candidates[:1]).shape[1]
    _write_rows(folder / KEYS, scorer.candidates, width, scorer.keys, show=False)


def _write_rows(
    path: Path, nodes: Ids, width: int, vectors: Callable[[Ids], Vectors], *, show: bool
) -> None:
    table = open_memmap(path, "w+", np.float32, (len(nodes), width), version=(1, 0))
    with progress_bar(len(nodes), desc="encoding nodes", unit="nodes", show=show) as bar:
        for at in range(0, len(nodes), CHUNK):
            table[at : at + CHUNK] = vectors(nodes[at : at + CHUNK])
            bar.update(len(nodes[at : at + CHUNK]))
    table.flush()


def _add_search(fitted: "FittedLinkPredictor", folder: Path, show: bool) -> IndexFacts:
    """Write what the search needs, and measure its recall on other sources, if there are any."""
    keys, scorer = _mapped(folder / KEYS), fitted.scorer
    sources = np.random.default_rng(0).permutation(fitted.network.graph.num_sources)
    tested = scorer.queries(np.sort(sources[:TESTED])).vectors
    others = sources[TESTED:] if len(sources) > TESTED else sources
    kind, recall = "exact", 1.0
    settings: dict[str, int] = {}
    if len(keys) > LARGE:
        sampled = scorer.queries(others[:SAMPLED]).vectors
        lists = InvertedLists.build(keys, sampled)
        choose_probes(lists, keys, sampled[:TESTED])
        measured = measure_recall(lists, keys, tested)
        if measured >= LEAST_RECALL:
            lists.save(folder)
            kind, recall = "ivf", measured
            settings = {"lists": lists.index.nlist, "probes": lists.probes}
        else:
            print_message(LOW_RECALL.format(measured), show=show)
    if kind == "exact" and keys.size > SMALL:
        search = BoundedSearch.build(keys, scorer.queries(others[:SAMPLED]).vectors)
        search.save(folder)
        recall = measure_recall(search, keys, tested)
    return IndexFacts(
        kind=kind,
        targets=len(keys),
        width=keys.shape[1],
        recall_at_10=recall,
        queries=len(tested),
        seconds=0.0,
        bytes=0,
        settings=settings,
    )


def choose_probes(search: InvertedLists, keys: Vectors, queries: Vectors) -> None:
    """Let a search compare as many lists as it needs for a recall@10 of .995.

    At most a quarter of the lists: beyond that, multiplying all keys is as fast.
    """
    best, most = best_positions(keys, queries), search.index.nlist // 4
    while search.probes < most and _recall(search, keys, queries, best) < WANTED_RECALL:
        search.probes = min(2 * search.probes, most)


def measure_recall(search: KeySearch, keys: Vectors, queries: Vectors) -> float:
    """The share of the 10 best keys of each query that a search finds."""
    return _recall(search, keys, queries, best_positions(keys, queries))


def best_positions(keys: Vectors, queries: Vectors, k: int = 10) -> Ids:
    """The positions [n, k] of the keys with the highest products, of all keys if they are fewer."""
    scores, positions = [], []
    for at, block in blocks(keys):
        top = torch.from_numpy(queries @ block.T).topk(min(k, len(block)))
        scores.append(top.values)
        positions.append(at + top.indices)
    best = torch.cat(scores, 1).topk(min(k, len(keys))).indices
    return np.asarray(torch.cat(positions, 1).gather(1, best).numpy())


def _recall(search: KeySearch, keys: Vectors, queries: Vectors, best: Ids) -> float:
    shares = []
    for query, expected in zip(queries, best, strict=True):
        ((found, _),) = search.best(keys, query[None], [Wanted(k=best.shape[1])], None)
        shares.append(len(np.intersect1d(found, expected)) / max(1, len(expected)))
    return float(np.mean(shares)) if shares else 1.0


def _text_vectors(folder: Path) -> dict[Side, Vectors]:
    nodes = _mapped(folder / NODES)
    targets = _mapped(folder / TARGETS) if (folder / TARGETS).exists() else nodes
    return {"source": nodes, "target": targets}


def _mapped(path: Path) -> NDArray[Any]:
    """An array of which changes stay in memory."""
    open_array(path, "fi")  # a damaged file is a FormatError
    return np.asarray(np.load(path, mmap_mode="c"))
