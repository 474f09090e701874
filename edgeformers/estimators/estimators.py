"""The estimators: settings, `fit`, and delegation to the fitted model."""

import shutil
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from os import PathLike
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from edgeformers import distributed
from edgeformers.config import RunConfig, Task
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.readers.sources import is_frame
from edgeformers.data.readers.tables import read_edges
from edgeformers.errors import ConfigError, InputError
from edgeformers.estimators.build import build_model, describe_split, find_model, run_config
from edgeformers.estimators.cpu_plan import describe_plan, has_plan, measure_speed, measure_workload
from edgeformers.estimators.scikit_learn import ScikitLearnParameters, label_rows
from edgeformers.estimators.warm_start import Parent, continued, open_parent
from edgeformers.evaluation import PROTOCOLS, LinkProtocol, LinkReport
from edgeformers.inference.encode import EncodeOptions
from edgeformers.inference.ensemble import fit_ensemble
from edgeformers.inference.fitted import (
    FittedModel,
    attach_network,
    choose_split,
    make_options,
    open_network,
    task_parts,
)
from edgeformers.inference.fitted_edges import (
    FittedEdgeClassifier,
    calibrate,
    head_settings,
    tune_decision,
)
from edgeformers.inference.fitted_links import FittedLinkPredictor, make_link_head
from edgeformers.inference.linear_model import fit_linear_model
from edgeformers.inference.load import load_fitted, load_pretrained
from edgeformers.inference.rolling import compare_rolling, report_rolling
from edgeformers.inference.saved_components import GROUP_NAMES
from edgeformers.inference.saved_model import MODEL
from edgeformers.models.edge_head import EdgeHead, Kind, balanced_weights
from edgeformers.nn.encoder import TextEncoder
from edgeformers.progress import print_message
from edgeformers.training.callbacks import Callback
from edgeformers.training.edge_objective import EdgeObjective
from edgeformers.training.initialization import merge_lora
from edgeformers.training.link_objective import LinkObjective
from edgeformers.training.run_folder import drop_checkpoints, owned_folder, write_run_results
from edgeformers.training.state_cache import cacheable_layers, cached_states
from edgeformers.training.trainer import Trainer, TrainingState

Network = EdgeTextGraph | str | PathLike[str] | Any  # or a data frame, with column names
Fitted = TypeVar("Fitted", FittedEdgeClassifier, FittedLinkPredictor)
P = ParamSpec("P")
R = TypeVar("R")


def delegated(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method of the fitted model as one of its estimator, with its signature and docstring."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = getattr(self.fitted_, method.__name__)(*args, **kwargs)
        return result

    return call


class NotFittedError(InputError, AttributeError):
    """The estimator has not been fitted."""


class Estimator(ScikitLearnParameters, ABC, Generic[Fitted]):
    """A model that learns from a network: `fit` it, then use it and `save` it.

    `settings` override single settings of the recipe by dotted name, like `--set` on the command
    line: {"train.epochs": 3, "model.backbone": "bert-base-uncased"}. With `start_from`, the folder
    of an earlier run or of a saved model, `fit` continues from it, with its settings.
    """

    task: Task

    def __init__(
        self,
        backbone: str | None = None,
        *,
        recipe: str = "default",
        settings: Mapping[str, Any] | None = None,
        config: RunConfig | None = None,
        start_from: str | PathLike[str] | None = None,
        device: str | torch.device | None = None,
        seed: int | None = None,
        show: bool = True,
    ) -> None:
        self._arguments = {
            "backbone": backbone,
            "recipe": recipe,
            "settings": settings,
            "config": config,
            "start_from": start_from,
            "device": device,
            "seed": seed,
            "show": show,
        }
        changes = dict(settings or {})
        changes |= {"model.backbone": backbone} if backbone is not None else {}
        changes |= {"train.seed": seed} if seed is not None else {}
        changes |= {"train.start_from": str(start_from)} if start_from is not None else {}
        if config is not None and config.task != self.task:
            raise ConfigError(f"{type(self).__name__} is for {self.task}, not for {config.task}")
        self._changes = None if config is not None else changes  # of a recipe, for its network
        starts_from_run = "train.start_from" in changes and recipe == "default"
        self._recipe = None if starts_from_run else recipe  # that of the earlier run
        if config is None:
            self.config = run_config(self.task, self._recipe, settings=changes)
        else:
            self.config = config.with_settings(changes)
        find_model(self.config)  # raises if it is not a model of this task
        self.options: EncodeOptions = make_options(self.config, device, show=show)
        self.progress: TrainingState | None = None  # of the last training
        self._fitted: Fitted | None = None
        self._classes: NDArray[Any] | None = None  # the values of `y`, if it was given

    def __repr__(self) -> str:
        state = "fitted" if self.is_fitted else "not fitted"
        model, recipe = self.config.model, self.config.recipe
        return f"{type(self).__name__}({model.backbone!r}, recipe={recipe!r}), {state}"

    @property
    def fitted_(self) -> Fitted:
        """What `fit` produced: the model with all it needs to be used."""
        if self._fitted is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit first")
        return self._fitted

    @property
    def is_fitted(self) -> bool:
        return self._fitted is not None

    @property
    def device(self) -> torch.device:
        return self.options.device

    @property
    def show(self) -> bool:
        """Whether progress is shown."""
        return self.options.show

    @show.setter
    def show(self, value: bool) -> None:
        self.options.show = value

    @property
    def model(self) -> nn.Module:
        """The trained model."""
        return self.fitted_.model

    @property
    def label_names(self) -> list[str]:
        """The labels, in the order of the classes."""
        return self.fitted_.label_names

    @property
    def results(self) -> dict[str, Any]:
        """What `evaluate` returned for each part so far."""
        return self.fitted_.results

    @classmethod
    def from_fitted(cls, fitted: Fitted) -> Self:
        """The estimator of a fitted model."""
        estimator = cls(config=fitted.config, device=fitted.device, show=fitted.options.show)
        estimator.options, estimator._fitted = fitted.options, fitted
        return estimator

    def fit(
        self,
        network: Network,
        y: Any = None,
        *,
        run: str | PathLike[str] | None = None,
        callbacks: Sequence[Callback] = (),
        **columns: Any,
    ) -> Self:
        """Learn from a prepared network, its path, or a data frame whose `columns` are named.

        With `y`, the labels of the rows of a data frame, a tenth of the rows is the validation
        part, and there is no test part: this is what scikit-learn calls.

        With `run`, a folder, training is logged and checkpointed there, an interrupted run resumes
        where it stopped, and a finished one is loaded. `callbacks` follow the training.
        """
        classes = None
        if y is not None:
            network, classes, columns = label_rows(network, y, columns, self.config.train.seed)
        objective = self.make_objective(network, **columns)
        self._classes = classes
        if run is None:
            self._fitted = self._train(objective, None, callbacks)
            return self
        folder, graph = Path(run).expanduser(), objective.fitted.network.graph
        with owned_folder(folder, self.config, graph):
            if distributed.broadcast((folder / MODEL).is_dir()):
                loaded = load_fitted(folder, network=graph, device=self.device, show=self.show)
                self._fitted = cast(Fitted, loaded)
            else:
                self._fitted = self._train(objective, folder, callbacks)
                carries = self._fitted.carries_network
                self._fitted.save(folder / MODEL, include_network=carries)
            drop_checkpoints(folder)
        return self

    def _train(self, objective: Any, folder: Path | None, callbacks: Sequence[Callback]) -> Fitted:
        """The fitted model; with a folder, training is logged and checkpointed there."""
        trainer = Trainer(
            objective,
            self.config.train,
            device=self.device,
            folder=folder,
            show=self.show,
            estimated_seconds=self._estimate(objective),
            callbacks=callbacks,
        )
        with cached_states(objective.fitted, folder):
            self.progress = trainer.fit()
        encoder = objective.modules.get_submodule("model.encoder")
        if self.config.train.lora_rank and isinstance(encoder, TextEncoder):
            merge_lora(encoder)
        objective.modules.eval()
        fitted = objective.fitted
        objective.fitted = replace(fitted, attached=fitted.network.remembered())
        return self._finish(objective)

    def _estimate(self, objective: Any) -> float | None:
        """How long a planned training on a CPU will take, which is printed too."""
        if self.device.type != "cpu" or not has_plan(self.config, find_model(self.config)):
            return None
        graph, num_train = objective.fitted.network.graph, len(objective.examples)
        encoder: TextEncoder = objective.model.encoder
        load = measure_workload(self.config, graph, num_train, len(encoder.layers))
        frozen, speed = cacheable_layers(objective.model), measure_speed(encoder)
        message = describe_plan(self.config.task, load, frozen, speed)
        print_message(message, show=self.show)
        return load.seconds(frozen, speed)

    @abstractmethod
    def make_objective(self, network: Network, **columns: Any) -> Any:
        """What `fit` trains: the untrained model with the batches and the loss of its task."""

    @abstractmethod
    def _finish(self, objective: Any) -> Fitted:
        """The fitted model, after what is chosen on validation once training has ended."""

    def attach(self, network: EdgeTextGraph | str | PathLike[str] | None = None) -> Self:
        """Give a loaded model the network it was trained on, to evaluate and embed.

        Without `network` it is taken from where it was, or from the folder of the model.
        """
        self._fitted = self.fitted_.attach(network)
        return self

    save = delegated(FittedModel.save)
    embed_texts = delegated(FittedModel.embed_texts)
    save_pretrained = delegated(FittedModel.save_pretrained)

    @classmethod
    def from_pretrained(
        cls,
        name: str | PathLike[str],
        *,
        network: Any = None,
        device: str | torch.device | None = None,
        revision: str | None = None,
    ) -> Self:
        """The estimator in a folder or on the Hugging Face Hub, where it is named user/model.

        Nothing in the folder is executed, and a damaged or altered file is an error. What needs
        the network it was trained on needs `network`, unless the folder contains it.
        """
        fitted = load_pretrained(name, network=network, device=device, revision=revision)
        if fitted.config.task != cls.task:
            raise InputError(f"{name} is a model for {fitted.config.task}, not a {cls.__name__}")
        return cls.from_fitted(cast(Fitted, fitted))

    def write_results(self, run: str | PathLike[str]) -> None:
        """Write what `evaluate` returned to RUN/results.json."""
        folder = Path(run).expanduser()
        distributed.run_on_main(lambda: write_run_results(folder, self.results))

    def _untrained(
        self, graph: EdgeTextGraph, from_frame: bool, parent: Parent | None
    ) -> dict[str, Any]:
        """The fields of a FittedModel before training."""
        split = choose_split(self.config, graph)
        model, tokens = build_model(self.config, graph, split, self.options, parent)
        return {
            "config": self.config,
            "options": self.options,
            "model": model,
            "tokenizer": tokens.tokenizer(),
            "nodes": graph.node_index,
            "attached": attach_network(self.config, model, graph, tokens),
            "carries_network": from_frame,
        }

    def _open(self, network: Network, columns: Mapping[str, Any]) -> tuple[EdgeTextGraph, bool]:
        """A prepared network, and whether it was prepared here, from a data frame.

        The settings are completed by those that the recipe takes from the network.
        """
        if from_frame := is_frame(network):
            folder = Path(mkdtemp(prefix="edgeformers-"))
            config = PrepareConfig(tokenizer=None, progress=self.show)
            graph = write_network(read_edges(network, **columns), folder / "network", config=config)
            weakref.finalize(graph, shutil.rmtree, folder, ignore_errors=True)
        elif columns:
            raise InputError(
                f"{', '.join(columns)}: columns can be named for data frames only; a prepared "
                "network has its columns already"
            )
        else:
            graph = open_network(network)
        if self._changes is not None:
            self.config = run_config(
                self.task, self._recipe, settings=self._changes, graph=graph, device=self.device
            )
        split = choose_split(self.config, graph)
        parts = task_parts(self.task, graph, split)  # raises if there are none
        if self.task == "link-prediction" and (
            description := describe_split(self.config, graph, parts["test"])
        ):
            print_message(description, show=self.show)
        return graph, from_frame


class EdgeClassifier(Estimator[FittedEdgeClassifier]):
    """Classes, several labels, ordered classes or numbers of edges, by Edgeformer-E or another.

    classifier = EdgeClassifier().fit("network")
    classifier.evaluate()
    classifier.predict([("ada", "tent", "Too small for two.")])
    """

    task: Task = "edge-classification"

    def make_objective(self, network: Network, **columns: Any) -> EdgeObjective:
        """What `fit` trains: the untrained model with the batches and the loss of its task."""
        graph, from_frame = self._open(network, columns)
        kind, parent = self._label_kind(graph), open_parent(self.config)
        fields = self._untrained(graph, from_frame, parent)
        assert graph.labels is not None
        labels = graph.labels[fields["attached"].parts["train"]]
        head = self._make_head(graph, labels, kind, fields["model"])
        names = list(graph.label_names)
        objective = EdgeObjective(FittedEdgeClassifier(**fields, head=head, label_names=names))
        return continued(objective, parent)

    evaluate = delegated(FittedEdgeClassifier.evaluate)
    predictions = delegated(FittedEdgeClassifier.predictions)
    embed_edges = delegated(FittedEdgeClassifier.embed_edges)

    def predict(self, /, edges: Any = None, **columns: Any) -> Any:
        """The label of each edge: of the test part, of edge numbers, or of new edges.

        New edges are a data frame (name its columns as for `read_edges`) or a list of (source,
        target, text). Edges of unknown nodes are classified by their text. What else a model
        reads around known nodes comes from the network it was fitted on. The labels are a list,
        or an array with the type of `y` if that was given to `fit`.
        """
        labels = self.fitted_.predict(edges, **columns)
        return labels if self._classes is None else self._values(labels)

    def predict_proba(self, /, edges: Any = None, **columns: Any) -> NDArray[np.float32]:
        """Probabilities [n, C] of edges given as for `predict`, in the order of `classes_`."""
        probs = self.fitted_.predict_proba(edges, **columns)
        if self._classes is None:
            return probs
        return probs[:, [self.label_names.index(str(value)) for value in self._classes]]

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes in the order of `predict_proba`; with the type of `y`, if it was given."""
        names = np.array(self.label_names)
        return names if self._classes is None else self._classes

    def score(self, /, edges: Any, y: Any, **columns: Any) -> float:
        """The share of edges, given as for `predict`, whose predicted class equals that in `y`."""
        if self.fitted_.head.kind not in ("class", "ordered"):
            raise InputError("score is the accuracy of classes; use evaluate for other labels")
        truth = np.array([str(label) for label in y])
        return float((np.array(self.fitted_.predict(edges, **columns)) == truth).mean())

    def _values(self, labels: Sequence[str]) -> NDArray[Any]:
        """Labels in the type of `y`."""
        assert self._classes is not None
        numbers = {str(value): number for number, value in enumerate(self._classes)}
        values: NDArray[Any] = self._classes[[numbers[label] for label in labels]]
        return values

    def _finish(self, objective: EdgeObjective) -> FittedEdgeClassifier:
        """Choose the weight of a linear model and the decision rule on validation."""
        settings, fitted = self.config.edges, objective.fitted
        if not (settings.ensemble or settings.tune_decision):
            return fitted
        val = fitted.encode_known(objective.parts["val"])
        vectors = torch.from_numpy(val).to(self.device)
        if settings.ensemble:
            linear = fit_linear_model(fitted, vectors, objective.select)
            if linear is not None and linear.share > 0.5:
                print_message(
                    "chosen on validation: a linear model of words and nodes gets "
                    f"{linear.share:.0%} of each decision, the trained model the rest",
                    show=self.show,
                )
        if settings.tune_decision:
            tune_decision(fitted, vectors)
        calibrate(fitted, vectors)
        return fitted

    def _label_kind(self, graph: EdgeTextGraph) -> Kind:
        """The kind of label to learn; classes may be learned as ordered and the other way round."""
        kind: Kind = graph.label_kind or "class"
        chosen = self.config.edges.kind or kind
        if chosen != kind and not {chosen, kind} <= {"class", "ordered"}:
            raise InputError(
                f"{graph.path} has labels of kind '{kind}', which cannot be learned as "
                f"edges.kind='{chosen}'; prepare it with `label_kind={chosen!r}`"
            )
        return chosen

    def _make_head(
        self, graph: EdgeTextGraph, labels: NDArray[Any], kind: Kind, model: torch.nn.Module
    ) -> EdgeHead:
        target = torch.from_numpy(np.asarray(labels))
        count = None if kind == "number" else len(graph.label_names)
        weights, balance = None, self.config.edges.class_balance
        if balance and kind != "number" and self.config.edges.loss == "cross_entropy":
            weights = balanced_weights(target, count or 1) ** balance
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.config.train.seed)
            head = EdgeHead.for_labels(
                target,
                int(model.width),  # type: ignore[arg-type]
                count,
                kind=kind,
                class_weights=weights,
                **head_settings(self.config.edges, kind),
            )
        return head.to(self.device)


class LinkPredictor(Estimator[FittedLinkPredictor]):
    """Links between nodes, from the texts of their edges, by Edgeformer-N or another model.

    predictor = LinkPredictor().fit("network")
    predictor.evaluate()
    predictor.recommend("ada", k=5)
    """

    task: Task = "link-prediction"

    def make_objective(self, network: Network, **columns: Any) -> LinkObjective:
        """What `fit` trains: the untrained model with the batches and the loss of its task."""
        graph, from_frame = self._open(network, columns)
        head = make_link_head(self.config.links, graph.num_nodes).to(self.device)
        parent = open_parent(self.config)
        fields = self._untrained(graph, from_frame, parent)
        return continued(LinkObjective(FittedLinkPredictor(**fields, head=head)), parent)

    def report(
        self, part: str = "test", *, protocols: Sequence[LinkProtocol] = PROTOCOLS
    ) -> LinkReport:
        """The ranks of a part's links, for comparing two models pair by pair."""
        return self.fitted_.report(self.fitted_.network.part(part), protocols=protocols)

    def report_rolling(self, part: str = "test") -> LinkReport:
        """The ranks of a part's links, each as of its own time, from earlier edges only.

        The split must be chronological.
        """
        return report_rolling(self.fitted_, part, show=self.show)

    def compare_rolling(
        self, other: "LinkPredictor", part: str = "test"
    ) -> tuple[LinkReport, LinkReport]:
        """`report_rolling` of this model and another one, such as last night's, on the same links.

        They are links of this model's network that came after everything that either model was
        fitted or validated on. The other model also reads the edges that came after its training.
        """
        return compare_rolling(self.fitted_, other.fitted_, part, show=self.show)

    evaluate = delegated(FittedLinkPredictor.evaluate)
    embed_nodes = delegated(FittedLinkPredictor.embed_nodes)
    embed_new_nodes = delegated(FittedLinkPredictor.embed_new_nodes)
    score = delegated(FittedLinkPredictor.score)
    recommend = delegated(FittedLinkPredictor.recommend)
    similar = delegated(FittedLinkPredictor.similar)
    what_if = delegated(FittedLinkPredictor.what_if)
    read_all_edges = delegated(FittedLinkPredictor.read_all_edges)

    def _finish(self, objective: LinkObjective) -> FittedLinkPredictor:
        """Fit the ensemble, if the settings ask for one."""
        ensemble = fit_ensemble(objective.fitted) if self.config.links.ensemble else None
        weights = [] if ensemble is None else ensemble.weights[:, 0].tolist()
        unused = [name for name, weight in zip(GROUP_NAMES, weights, strict=False) if not weight]
        if unused:
            sources = f" for sources with {' or '.join(unused)}"
            where = sources if len(unused) < len(GROUP_NAMES) else ""
            print_message(
                f"chosen on validation: the trained score gets weight 0{where}, since the other "
                "components of the ensemble rank better alone",
                show=self.show,
            )
        return replace(objective.fitted, ensemble=ensemble)
