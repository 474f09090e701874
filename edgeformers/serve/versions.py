"""Versions: the models of runs, swapped for new versions while requests are answered."""

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

from edgeformers.config import Task
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.node_index import NodeIndex
from edgeformers.data.types import Ids, Side
from edgeformers.errors import FormatError, InputError, suggest
from edgeformers.inference.fitted_edges import FittedEdgeClassifier
from edgeformers.inference.fitted_links import FittedLinkPredictor
from edgeformers.inference.index import FOLDER, RECORD
from edgeformers.inference.load import load_fitted
from edgeformers.inference.model_card import CARD, CONFIG
from edgeformers.inference.saved_model import model_folder
from edgeformers.serve.node_search import NodeSearch
from edgeformers.serve.schemas import ModelDetails, ModelInfo

Fitted = FittedEdgeClassifier | FittedLinkPredictor
VERSION_DIGITS = 12


class UnknownModelError(InputError):
    """The server has no model of a name, or none for a task."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ServedModel:
    """A loaded run under the name and version that answers carry."""

    name: str
    version: str
    run: Path
    fitted: Fitted
    card: str
    files: str  # a fingerprint of the model and its index
    loaded_at: float = field(default_factory=time.time)

    @property
    def task(self) -> Task:
        return self.fitted.config.task

    @property
    def signature(self) -> dict[str, str]:
        """What every answer of the model carries."""
        return {"model": self.name, "version": self.version}

    @property
    def graph(self) -> EdgeTextGraph:
        return self.fitted.network.graph

    def node_numbers(self, ids: Sequence[str], side: Side | None) -> Ids:
        """The numbers of nodes; one that neither the network nor later edges have is an error."""
        return self._nodes.known_numbers(ids, side)

    def has_node(self, node: str, side: Side | None) -> bool:
        """Whether the network or later edges have a node."""
        return bool(self._nodes.numbers([node], side)[0] >= 0)

    @property
    def _nodes(self) -> NodeIndex:
        is_links = isinstance(self.fitted, FittedLinkPredictor)
        return self.links.live_nodes if is_links else self.fitted.nodes

    def info(self) -> ModelInfo:
        """The model in a few words."""
        return ModelInfo(
            name=self.name,
            version=self.version,
            task=self.task,
            backbone=self.fitted.config.model.backbone,
            loaded_at=self.loaded_at,
        )

    def details(self) -> ModelDetails:
        """All that is known about the model."""
        fitted = self.fitted
        index = fitted.index if isinstance(fitted, FittedLinkPredictor) else None
        return ModelDetails(
            **vars(self.info()),
            width=fitted.width,
            labels=fitted.label_names,
            network=fitted.network_facts,
            results=fitted.results,
            index=None if index is None else asdict(index.facts),
            card=self.card,
        )

    @cached_property
    def node_search(self) -> NodeSearch:
        return NodeSearch(self.graph)

    @property
    def links(self) -> FittedLinkPredictor:
        assert isinstance(self.fitted, FittedLinkPredictor)
        return self.fitted

    @property
    def edges(self) -> FittedEdgeClassifier:
        assert isinstance(self.fitted, FittedEdgeClassifier)
        return self.fitted


class Versions:
    """The models that answer requests, and those before the last swap for rollback."""

    def __init__(
        self,
        runs: Sequence[Path],
        *,
        network: Path | None = None,
        all_edges: bool = False,  # validation and test edges are read for recommendations, too
        device: str | None = None,
        prepare: Callable[[ServedModel], None] = lambda model: None,  # called before it is used
    ) -> None:
        self._prepare = prepare
        self._runs = {
            name: run.expanduser() for name, run in zip(run_names(runs), runs, strict=True)
        }
        self._network, self._all_edges, self._device = network, all_edges, device
        self._swapping = threading.Lock()
        self.previous: tuple[ServedModel, ...] = ()
        self.current: tuple[ServedModel, ...] = tuple(map(self._load, self._runs))

    def find(self, task: Task | None = None, name: str | None = None) -> ServedModel:
        """The model of a name, or the first for a task; of any task, link models come first."""
        models = sorted(self.current, key=lambda model: model.task != "link-prediction")
        named = [model for model in models if name in (None, model.name)]
        if not named:
            names = [model.name for model in models]
            raise UnknownModelError(f"no model '{name}' is served; {suggest(str(name), names)}")
        suitable = [model for model in named if task in (None, model.task)]
        if not suitable:
            which = f"'{name}' is a run of {named[0].task}" if name else "no such run is served"
            raise UnknownModelError(f"this needs a run of {task}, but {which}")
        return suitable[0]

    def reload(self) -> tuple[ServedModel, ...]:
        """Load the runs whose files have changed, and answer with them from now on.

        Without a change nothing is swapped. If a run cannot be loaded, all models stay.
        """
        with self._swapping:
            loaded = {model.name: model for model in self.current}
            models = tuple(
                loaded[name] if loaded[name].files == _fingerprint(run) else self._load(name)
                for name, run in self._runs.items()
            )
            if models != self.current:
                self.previous, self.current = self.current, models
            return self.current

    def rollback(self) -> tuple[ServedModel, ...]:
        """Swap back to the models before the last swap, which are kept in turn."""
        with self._swapping:
            if not self.previous:
                raise InputError("there is no earlier version: no model has been reloaded")
            for model in set(self.previous) - set(self.current):
                self._prepare(model)
            self.previous, self.current = self.current, self.previous
            return self.current

    def _load(self, name: str) -> ServedModel:
        run = self._runs[name]
        version, files = model_version(run), _fingerprint(run)
        fitted = load_fitted(run, network=self._network, device=self._device, show=False)
        if self._all_edges and isinstance(fitted, FittedLinkPredictor):
            fitted.read_all_edges()
        card = model_folder(run) / CARD
        text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
        model = ServedModel(
            name=name, version=version, run=run, fitted=fitted, card=text, files=files
        )
        self._prepare(model)
        fitted.nodes.make_tables()
        if isinstance(fitted, FittedLinkPredictor) and len(fitted.nodes):
            for _ in range(2):  # loads all that answers need; without an index, encodes all nodes
                fitted.recommend(fitted.nodes.ids_of([0])[0], 1, explain=1)
        return model


def run_names(runs: Sequence[Path]) -> list[str]:
    """The names of run folders; those with equal names get that of the parent folder in front."""
    paths = [run.expanduser().resolve() for run in runs]
    names = [path.name for path in paths]
    unique = [
        name if names.count(name) == 1 else f"{path.parent.name}-{name}"
        for path, name in zip(paths, names, strict=True)
    ]
    for at, name in enumerate(unique):
        if name in unique[:at]:
            raise InputError(f"two runs are called '{name}'; rename one of their folders")
    return unique


def model_version(run: Path) -> str:
    """The version of a run's model: a hash of config.json, which has the checksums of all files."""
    path = model_folder(run) / CONFIG
    if not path.is_file():
        raise FormatError(f"{run} has no trained model: {path} is missing; give a finished run")
    return hashlib.sha256(path.read_bytes()).hexdigest()[:VERSION_DIGITS]


def _fingerprint(run: Path) -> str:
    """A new version or a new index changes it."""
    index = run / FOLDER / RECORD
    indexed = hashlib.sha256(index.read_bytes()).hexdigest() if index.is_file() else ""
    return model_version(run) + indexed
