"""EdgeClassifier: learns to classify edges from their texts and their nodes."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from edgeformers.config import Task
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.errors import InputError
from edgeformers.estimators.base import Estimator, Network
from edgeformers.estimators.build import build_model
from edgeformers.estimators.settings import find_model
from edgeformers.evaluation.network_labels import labeled_edge_parts
from edgeformers.inference.fit_linear_edge_model import fit_linear_model
from edgeformers.inference.fitted_edges import Edges, FittedEdgeClassifier, head_settings
from edgeformers.inference.network import attach_edges, choose_split
from edgeformers.models.edge_head import EdgeHead, Kind, Predictions, balanced_weights
from edgeformers.progress import print_message
from edgeformers.training.edge_objective import EdgeObjective


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
        split = choose_split(self.config, graph)
        parts = labeled_edge_parts(graph, split)
        kind = self._label_kind(graph)
        model, tokens = build_model(self.config, graph, split, self.options)
        assert graph.labels is not None
        head = self._make_head(graph, graph.labels[parts["train"]], kind, model)
        context = find_model(self.config).context
        return EdgeObjective(
            FittedEdgeClassifier(
                config=self.config,
                options=self.options,
                model=model,
                head=head,
                tokenizer=tokens.tokenizer(),
                nodes=graph.node_index,
                label_names=list(graph.label_names),
                attached=attach_edges(self.config, graph, tokens, context=context),
                carries_network=from_frame,
            )
        )

    def evaluate(self, part: str = "test", *, intervals: bool = True) -> dict[str, Any]:
        """Metrics on a part of the split the model was fitted with, with 95 % intervals of F1."""
        return self.fitted_.evaluate(part, intervals=intervals)

    def predict(self, edges: Edges = None, **columns: Any) -> list[Any]:
        """The label of each edge: of the test part, of edge numbers, or of new edges.

        New edges are a data frame (name its columns as for `read_edges`) or a list of (source,
        target, text). Edges of unknown nodes are classified by their text. What else a model
        reads around known nodes comes from the network it was fitted on.
        """
        return self.fitted_.predict(edges, **columns)

    def predict_proba(self, edges: Edges = None, **columns: Any) -> NDArray[np.float32]:
        """Probabilities [n, C], in the order of `label_names`."""
        return self.fitted_.predict_proba(edges, **columns)

    def predictions(self, edges: Edges = None, **columns: Any) -> Predictions:
        """Labels and probabilities as tensors, of edges given as for `predict`."""
        return self.fitted_.predictions(edges, **columns)

    def embed_edges(self, edges: Edges = None, **columns: Any) -> NDArray[np.float32]:
        """edge_repr [n, D] of edges given as for `predict`."""
        return self.fitted_.embed_edges(edges, **columns)

    def _finish(self, objective: EdgeObjective) -> FittedEdgeClassifier:
        """Choose the weight of a linear model and the decision rule on validation."""
        settings, fitted = self.config.edges, objective.fitted
        if not (settings.ensemble or settings.tune_decision):
            return fitted
        val, head = objective.parts["val"], objective.head
        vectors = torch.from_numpy(fitted.encode_known(val)).to(self.device)
        if settings.ensemble:
            linear = fit_linear_model(fitted, vectors, objective.select)
            if linear is not None and linear.share > 0.5:
                print_message(
                    "the trained model adds little to a linear model of words and nodes here: on "
                    f"validation, the linear model gets {linear.share:.0%} of each decision",
                    show=self.show,
                )
        if settings.tune_decision and head.kind == "class":
            labels = fitted.labels_of(objective.parts["train"])
            counts = torch.bincount(labels, minlength=head.num_classes)
            frequencies = (counts / counts.sum()).to(self.device)
            logits = fitted.linear_logits(val)
            truth = fitted.labels_of(val)
            head.tune_decision(vectors, truth, frequencies, objective.select, logits)
        return fitted

    def _label_kind(self, graph: EdgeTextGraph) -> Kind:
        """The kind of label to learn; classes may be learned as ordered and the other way round."""
        kind: Kind = graph.label_kind or "class"
        chosen = self.config.edges.kind or kind
        if chosen != kind and not {chosen, kind} <= {"class", "ordered"}:
            raise InputError(
                f"{graph.path} has labels of kind '{kind}', which cannot be learned as "
                f"edges.kind='{chosen}'; prepare it with --label-kind {chosen}"
            )
        return chosen

    def _make_head(
        self, graph: EdgeTextGraph, labels: NDArray[Any], kind: Kind, model: torch.nn.Module
    ) -> EdgeHead:
        """A head for the training labels."""
        target = torch.from_numpy(
            np.asarray(labels, np.int64 if labels.dtype.kind == "i" else None)
        )
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
