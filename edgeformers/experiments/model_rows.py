"""The rows of every table: which model each is, and what it is called in the paper."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from edgeformers import aliases
from edgeformers.config import Task
from edgeformers.errors import InputError, suggest
from edgeformers.registry import EDGE_BASELINES, LINK_BASELINES, MODELS

RANDOM = ("als", "bpr", "lightgcn", "frozen-boosting")  # simple baselines that draw at random
Group = Literal["simple", "words", "gnn", "plm", "ours"]


@dataclass(frozen=True, kw_only=True)
class ModelRow:
    """A row of a table: a model with the settings that make the row."""

    name: str  # also of its folder
    title: str
    model: str  # in the registry of models, or among the simple baselines
    task: Task
    group: Group
    in_paper: bool = True
    is_random: bool = False  # of a simple baseline: whether another seed gives other scores
    settings: Mapping[str, Any] = field(default_factory=dict)  # over those of the recipe

    @property
    def is_simple(self) -> bool:
        """Whether it is fitted on a CPU at once, its own settings chosen on validation."""
        return self.model not in MODELS and self.model in _simple(self.task)

    @property
    def exists(self) -> bool:
        """Whether there is such a model."""
        return self.model in MODELS or self.is_simple


def _simple(task: Task) -> Mapping[str, Any]:
    return EDGE_BASELINES if task == "edge-classification" else LINK_BASELINES


def _rows(task: Task, *given: tuple[str, str, Group, bool]) -> tuple[ModelRow, ...]:
    return tuple(
        ModelRow(
            name=name,
            title=title,
            model=name,
            task=task,
            group=group,
            in_paper=published,
            is_random=name in RANDOM,
        )
        for name, title, group, published in given
    )


def _alone_and_ensemble(model: str, title: str, others: str) -> tuple[ModelRow, ModelRow]:
    """An Edgeformer as the others are, alone, and as the recipe `default` has it."""
    is_edge = MODELS[model].encodes == "edges"
    alone = ModelRow(
        name=model,
        title=title,
        model=model,
        task="edge-classification" if is_edge else "link-prediction",
        group="ours",
        settings={"edges.ensemble" if is_edge else "links.ensemble": False},
    )
    ensemble = replace(
        alone,
        name=f"{model}-ensemble",
        title=f"{title} + ensemble ({others})",
        in_paper=False,
        settings=dict.fromkeys(alone.settings, True),
    )
    return alone, ensemble


EDGE_ROWS = (
    *_rows(
        "edge-classification",
        ("node-ids", "node ids", "simple", False),
        ("frozen", "frozen text", "simple", False),
        ("frozen-boosting", "frozen text, boosting", "simple", False),
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
    *_alone_and_ensemble("edgeformer-e", "Edgeformer-E", "words, nodes"),
)
LINK_ROWS = (
    *_rows(
        "link-prediction",
        ("popularity", "popularity", "simple", False),
        ("text-similarity", "text similarity", "simple", False),
        ("ease", "EASE", "simple", False),
        ("ease-text", "EASE+text", "simple", False),
        ("bpr", "BPR", "simple", False),
        ("lightgcn", "LightGCN", "simple", False),
        ("als", "MF", "gnn", True),
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
    *_alone_and_ensemble("edgeformer-n", "Edgeformer-N", "LightGCN, MF, EASE"),
)
#: For networks in which nodes can be linked back.
RETURN_ROWS = _rows("link-prediction", ("reciprocity", "reciprocity", "simple", False))
#: The order of groups is that of the paper's tables; the simple ones stand first.
ROWS: Mapping[str, ModelRow] = {row.name: row for row in (*EDGE_ROWS, *RETURN_ROWS, *LINK_ROWS)}

#: Virtual tokens as the paper's Table 3 names them.
TOKENS = {
    "edgeformer-e": {"source": "source node token", "target": "target node token"},
    "edgeformer-n": {
        "center": "center node token",
        "neighbor": "neighbor node token",
        "local": "neighbor text token",
    },
}
NODE_ROWS = ("als", "censnet", "nenn", "bert-n", "bert-censnet", "bert-nenn", "edgeformer-n")
TIMED_ROWS = ("bert-gin", "bert-nenn", "graphformers-n", "edgeformer-n")
DIMENSIONS = (4, 8, 16, 32, 64)
NEIGHBORS = (2, 3, 4, 5, 6, 8)
COLD_SPLIT = "cold-source+drop-target"  # what `cold-start` measures on, unless told otherwise


def ablation_rows() -> tuple[ModelRow, ...]:
    """Both Edgeformers, whole and without each of their virtual tokens."""
    found = []
    for model, tokens in TOKENS.items():
        whole = ROWS[model]
        found.append(whole)
        for token, title in tokens.items():
            left = [name for name in tokens if name != token]
            found.append(_variant(whole, f"without-{token}", f"- {title}", {"model.tokens": left}))
    return tuple(found)


def dimension_rows(values: Sequence[int] = DIMENSIONS) -> tuple[ModelRow, ...]:
    """Edgeformer-N with node vectors of several widths."""
    whole = ROWS["edgeformer-n"]
    return tuple(_variant(whole, f"width-{n}", str(n), {"model.node_width": n}) for n in values)


def neighbor_rows(values: Sequence[int] = NEIGHBORS) -> tuple[ModelRow, ...]:
    """Edgeformer-N that reads so many edges of each node."""
    names = ("data.source_neighbors", "data.target_neighbors")
    whole = ROWS["edgeformer-n"]
    return tuple(
        _variant(whole, f"neighbors-{n}", str(n), {name: [n] for name in names}) for n in values
    )


def cold_rows(
    rows: Iterable[ModelRow] = LINK_ROWS, split: str = COLD_SPLIT
) -> tuple[ModelRow, ...]:
    """Models of links, learned without some nodes that they are then asked about."""
    return tuple(_variant(row, "cold", row.title, {"data.split": split}) for row in rows)


def choose_rows(rows: Iterable[ModelRow], wanted: Sequence[str] | None) -> tuple[ModelRow, ...]:
    """The rows there are models for, or those wanted by name."""
    known = {row.name: row for row in rows}
    wanted = None if wanted is None else [aliases.ROWS.get(name, name) for name in wanted]
    if wanted is not None and not wanted:
        raise InputError(f"no row is named; available: {', '.join(known)}")
    for name in wanted or ():
        if name not in known:
            raise InputError(f"this table has no row '{name}'; {suggest(name, known)}")
        if not known[name].exists:
            raise InputError(f"the model of the row '{name}' is not part of this installation")
    return tuple(
        row for row in known.values() if row.exists and (wanted is None or row.name in wanted)
    )


def _variant(row: ModelRow, ending: str, title: str, settings: Mapping[str, Any]) -> ModelRow:
    name, all_settings = f"{row.name}-{ending}", {**row.settings, **settings}
    return replace(row, name=name, title=title, settings=all_settings)
