"""The rows of every table: which model each row is, and what the paper calls it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, Literal

from edgeformers import aliases
from edgeformers.baselines.registry import EDGE_BASELINES, LINK_BASELINES, PYG_BASELINES
from edgeformers.config import Task
from edgeformers.errors import InputError, suggest
from edgeformers.registry import MODELS

#: Whose results vary with the seed.
RANDOM_BASELINES = (
    "als",
    "bpr",
    "lightgcn",
    "collaborative",
    "netmf",
    "frozen-boosting",
    "recent-lightgcn",
    "sasrec",
    "sasrec-text",
    "tgn",
    "alpharec",
    "graph-transformer",
)
Group = Literal["simple", "words", "gnn", "plm", "ours"]


@dataclass(frozen=True, kw_only=True)
class ModelRow:
    """A row of a table: a model and the settings that define the row."""

    name: str  # also of the run folder
    title: str
    model: str  # in the model registry, or a simple baseline
    task: Task
    group: Group
    in_paper: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)  # override those of the recipe

    @property
    def is_simple(self) -> bool:
        """Whether it is a simple baseline, which is fitted at once and tunes itself."""
        is_edge = self.task == "edge-classification"
        baselines: Mapping[str, Any] = EDGE_BASELINES if is_edge else LINK_BASELINES
        return self.model not in MODELS and self.model in baselines

    @property
    def is_random(self) -> bool:
        """Whether results vary with the seed."""
        return not self.is_simple or self.model in RANDOM_BASELINES

    @property
    def exists(self) -> bool:
        """Whether the model is part of this installation."""
        if self.model in PYG_BASELINES and find_spec("torch_geometric") is None:
            return False
        return self.model in MODELS or self.is_simple

    def variant(self, suffix: str, title: str, settings: Mapping[str, Any]) -> "ModelRow":
        """The same model with other settings."""
        changed = {**self.settings, **settings}
        return replace(self, name=f"{self.name}-{suffix}", title=title, settings=changed)


def _rows(task: Task, *rows: tuple[str, str, Group, bool]) -> tuple[ModelRow, ...]:
    return tuple(
        ModelRow(name=name, title=title, model=name, task=task, group=group, in_paper=in_paper)
        for name, title, group, in_paper in rows
    )


#: Like for like: every row has the same objective, the same extras and the same search budget. The
#: Edgeformers are the paper's architectures, without an ensemble or late fusion.
EDGE_ROWS = (
    *_rows(
        "edge-classification",
        ("tfidf", "TF-IDF", "words", True),
        ("tfidf-nodes", "TF-IDF+nodes", "words", True),
        ("ehgnn", "EHGNN", "words", True),
        ("bert", "BERT", "plm", True),
        ("text-one-hots", "BERT+one-hots", "plm", False),
        ("bert-nodes", "BERT+nodes", "plm", True),
        ("bert-ehgnn", "BERT+EHGNN", "plm", True),
        ("bert-max-sage", "BERT+MaxSAGE", "plm", True),
        ("graphformers", "GraphFormers", "plm", True),
    ),
    ModelRow(
        name="edgeformer-e",
        title="Edgeformer-E",
        model="edgeformer-e",
        task="edge-classification",
        group="ours",
        settings={"edges.ensemble": False, "model.fusion": False},
    ),
)
LINK_ROWS = (
    *_rows(
        "link-prediction",
        ("mean-sage-words", "MeanSAGE+words", "gnn", False),
        ("max-sage-words", "MaxSAGE+words", "gnn", False),
        ("gin-words", "GIN+words", "gnn", False),
        ("netmf", "MF", "gnn", True),
        ("mean-sage", "MeanSAGE", "gnn", True),
        ("max-sage", "MaxSAGE", "gnn", True),
        ("gin", "GIN", "gnn", True),
        ("censnet", "CensNet", "gnn", True),
        ("nenn", "NENN", "gnn", True),
        ("bert-n", "BERT", "plm", True),
        ("bert-max-sage-n", "BERT+MaxSAGE", "plm", True),
        ("bert-mean-sage", "BERT+MeanSAGE", "plm", True),
        ("bert-gin", "BERT+GIN", "plm", True),
        ("graphformers-n", "GraphFormers", "plm", True),
        ("bert-censnet", "BERT+CensNet", "plm", True),
        ("bert-nenn", "BERT+NENN", "plm", True),
    ),
    ModelRow(
        name="edgeformer-n",
        title="Edgeformer-N",
        model="edgeformer-n",
        task="link-prediction",
        group="ours",
        settings={"links.ensemble": False},
    ),
)


def _variant(row: ModelRow, suffix: str, title: str, settings: Mapping[str, Any]) -> ModelRow:
    """A row that is not in the paper: a model with exactly these settings on top of the recipe."""
    name = f"{row.name}-{suffix}"
    return replace(row, name=name, title=title, settings=settings, in_paper=False)


#: As shipped: both Edgeformers as a recipe trains them, next to what people use instead.
SHIPPED_EDGE_ROWS = (
    *_rows(
        "edge-classification",
        ("node-ids", "node ids", "simple", False),
        ("frozen", "frozen text", "simple", False),
        ("frozen-boosting", "frozen text, boosting", "simple", False),
        ("tfidf", "TF-IDF", "words", True),
        ("tfidf-nodes", "TF-IDF+nodes", "words", True),
        ("bert", "fine-tuned text model", "plm", True),
    ),
    _variant(EDGE_ROWS[-1], "fusion", "Edgeformer-E, no ensemble", {"edges.ensemble": False}),
    _variant(EDGE_ROWS[-1], "ensemble", "Edgeformer-E + ensemble (words, nodes)", {}),
)
#: On frozen text vectors, with or without times.
TEXT_GRAPH_ROWS = _rows(
    "link-prediction",
    ("alpharec", "AlphaRec", "simple", False),
    ("graph-transformer", "graph transformer, frozen text", "simple", False),
)
#: Only for networks with times.
TEMPORAL_ROWS = _rows(
    "link-prediction",
    ("recent-popularity", "recent popularity", "simple", False),
    ("last-neighbors", "last neighbors", "simple", False),
    ("recent-ease", "EASE with recency", "simple", False),
    ("recent-lightgcn", "LightGCN with recency", "simple", False),
    ("sasrec", "SASRec, ids", "simple", False),
    ("sasrec-text", "SASRec, frozen text", "simple", False),
    ("tgn", "TGN, frozen text", "simple", False),
)
SHIPPED_LINK_ROWS = (
    *_rows(
        "link-prediction",
        ("popularity", "popularity", "simple", False),
        ("text-similarity", "text similarity", "simple", False),
        ("ease", "EASE", "simple", False),
        ("ease-text", "EASE+text", "simple", False),
        ("als", "ALS", "simple", False),
        ("bpr", "BPR", "simple", False),
        ("lightgcn", "LightGCN", "simple", False),
        ("collaborative", "LightGCN + ALS + EASE", "simple", False),
    ),
    _variant(
        next(row for row in LINK_ROWS if row.name == "bert-n"),
        "text",
        "fine-tuned text model",
        {"links.collaborative": False},
    ),
    replace(LINK_ROWS[-1], title="Edgeformer-N, no ensemble"),
    _variant(LINK_ROWS[-1], "ensemble", "Edgeformer-N + ensemble (LightGCN, ALS, EASE, times)", {}),
)
#: Only for networks in which a node can link back.
RECIPROCITY_ROWS = _rows("link-prediction", ("reciprocity", "reciprocity", "simple", False))
ROWS: Mapping[str, ModelRow] = {
    row.name: row
    for row in (
        *SHIPPED_EDGE_ROWS,
        *SHIPPED_LINK_ROWS,
        *TEMPORAL_ROWS,
        *TEXT_GRAPH_ROWS,
        *RECIPROCITY_ROWS,
        *EDGE_ROWS,
        *LINK_ROWS,
    )
}
SHIPPED_NAMES = frozenset(ROWS) - {row.name for row in (*EDGE_ROWS, *LINK_ROWS)} | {
    row.name for row in (*SHIPPED_EDGE_ROWS, *SHIPPED_LINK_ROWS)
}

#: Virtual tokens by the names of the paper's Table 3.
VIRTUAL_TOKENS = {
    "edgeformer-e": {"source": "source node token", "target": "target node token"},
    "edgeformer-n": {
        "center": "center node token",
        "neighbor": "neighbor node token",
        "local": "neighbor text token",
    },
}
NODE_ROWS = ("netmf", "censnet", "nenn", "bert-n", "bert-censnet", "bert-nenn", "edgeformer-n")
TIMED_ROWS = ("bert-gin", "bert-nenn", "graphformers-n", "edgeformer-n")
TIMED_BATCH = 25  # nodes per timed mini-batch, as in the paper
TIMED_TOKENS = 64  # per text, at most
TIMED_NEIGHBORS = (2, 3, 4, 5)  # edges per node
DIMENSIONS = (4, 8, 16, 32, 64)
NEIGHBORS = (2, 3, 4, 5, 6, 8)
COLD_SPLIT = "cold-source+drop-target"  # the default split of the cold-start experiment
#: The default splits of experiments that train on the past.
CHRONOLOGICAL_SPLIT = "chronological:0.8/0.1/0.1+drop+new-pairs"
ROLLING_SPLIT = "chronological:0.8/0.1/0.1"
#: Ends of row names that say on which split a row is trained.
SPLIT_SUFFIXES = ("-cold", "-chronological", "-rolling")


def varies_with_seed(row: str) -> bool:
    """Whether the results of a row, given by name, vary with the seed."""
    for suffix in SPLIT_SUFFIXES:
        row = row.removesuffix(suffix)
    known = ROWS.get(row)
    return known is None or known.is_random


def ablation_rows() -> tuple[ModelRow, ...]:
    """Both Edgeformers, complete and without each of their virtual tokens."""
    rows = []
    for model, tokens in VIRTUAL_TOKENS.items():
        rows.append(ROWS[model])
        for token, title in tokens.items():
            kept = [name for name in tokens if name != token]
            settings = {"model.tokens": kept}
            rows.append(ROWS[model].variant(f"without-{token}", f"- {title}", settings))
    return tuple(rows)


def dimension_rows(values: Sequence[int] = DIMENSIONS) -> tuple[ModelRow, ...]:
    """Edgeformer-N with node embeddings of several widths."""
    row = ROWS["edgeformer-n"]
    return tuple(row.variant(f"width-{n}", str(n), {"model.node_width": n}) for n in values)


def neighbor_rows(values: Sequence[int] = NEIGHBORS) -> tuple[ModelRow, ...]:
    """Edgeformer-N with several neighborhood sizes, sampled from all edges of a node."""
    row, names = ROWS["edgeformer-n"], ("data.source_neighbors", "data.target_neighbors")
    return tuple(
        row.variant(
            f"neighbors-{n}", str(n), {"data.strata": "none"} | {name: [n] for name in names}
        )
        for n in values
    )


def all_link_rows() -> tuple[ModelRow, ...]:
    """Link models of both tables, each once."""
    rows = {row.name: row for row in (*SHIPPED_LINK_ROWS, *LINK_ROWS)}
    return tuple(rows.values())


def split_rows(rows: Iterable[ModelRow], suffix: str, split: str) -> tuple[ModelRow, ...]:
    """The same models trained on another split; `suffix` ends their names."""
    return tuple(row.variant(suffix, row.title, {"data.split": split}) for row in rows)


def choose_rows(rows: Iterable[ModelRow], names: Sequence[str] | None) -> tuple[ModelRow, ...]:
    """The rows whose models exist, or those with the given names, in the order of the table."""
    known = {row.name: row for row in rows}
    if names is None:
        return tuple(row for row in known.values() if row.exists)
    if not names:
        raise InputError(f"no row is named; available rows: {', '.join(known)}")
    chosen = [aliases.ROWS.get(name, name) for name in names]
    for name in chosen:
        if name not in known and name in ROWS:
            other = "as-shipped" if name in SHIPPED_NAMES else ROWS[name].task
            raise InputError(f"'{name}' is a row of the table {other}, not of this one")
        if name not in known:
            raise InputError(f"this table has no row '{name}'; {suggest(name, known)}")
        if not known[name].exists:
            raise InputError(f"the model of row '{name}' is not part of this installation")
    return tuple(row for row in known.values() if row.name in chosen)
