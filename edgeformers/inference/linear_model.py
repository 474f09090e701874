"""Fit the linear model of words and nodes that an edge classifier is combined with."""

import warnings
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgeformers.data.loader import EdgeLoader
from edgeformers.data.types import Floats, Ids
from edgeformers.evaluation.metrics import SMALLER_IS_BETTER
from edgeformers.inference.fitted_edges import FittedEdgeClassifier
from edgeformers.models.linear_edge_model import LinearEdgeModel
from edgeformers.nn.bag_of_words import BagOfWords

if TYPE_CHECKING:
    from scipy import sparse

MAX_EDGES = 200_000  # training edges; above, fitting takes minutes
MAX_WEIGHTS = 5_000_000  # of words and nodes for all classes; more take gigabytes to fit
WORDS = 20_000
INVERSE_PENALTY = 5.0  # C of scikit-learn
ITERATIONS = 300
CHUNK = 8_192  # edges whose words are counted at once
SHARES = (0.5, 0.35, 0.65, 0.2, 0.8, 0.0)  # of the linear model; the first of equal ones is used


def fit_linear_model(
    fitted: FittedEdgeClassifier, vectors: Tensor, metric: str
) -> LinearEdgeModel | None:
    """Fit a logistic regression on training edges; choose its share of decisions on validation.

    `vectors` are those of the validation edges. The head gets the model as its `ensemble`. None
    if it does not help, if edges do not have one class each, or if the network is too large.
    """
    head, network = fitted.head, fitted.network
    train, val = network.parts["train"], network.parts["val"]
    ends = (network.graph.src[train], network.graph.dst[train])
    weights = (WORDS + sum(len(np.unique(nodes)) for nodes in ends)) * head.num_classes
    is_small = len(train) <= MAX_EDGES and weights <= MAX_WEIGHTS
    if head.kind not in ("class", "ordered") or not is_small:
        return None
    class_weights = head.class_weights.cpu().double().numpy()
    linear = _fit(network.loader, train, class_weights).to(fitted.device)
    head.ensemble = linear
    logits, labels = fitted.linear_logits(val), fitted.labels_of(val)
    scores = {}
    for share in SHARES:
        linear.share.fill_(share)
        with torch.inference_mode():
            scores[share] = head.metrics(head.predict(vectors, logits), labels)[metric]
    sign = -1 if metric in SMALLER_IS_BETTER else 1
    best = max(SHARES, key=lambda share: sign * scores[share])
    linear.share.fill_(best)
    head.ensemble = linear if best else None
    return head.ensemble


def _fit(loader: EdgeLoader, edges: Ids, class_weights: Floats) -> LinearEdgeModel:
    """The logistic regression on words and nodes of edges, with weighted classes [C]."""
    from scipy import sparse

    graph, classes = loader.graph, len(class_weights)
    counts = loader.tokens.count_documents(edges, loader.tokens.max_tokens)
    bag = BagOfWords.from_counts(counts, len(edges), words=WORDS, width=classes)
    ends = [np.unique(nodes[edges], return_inverse=True) for nodes in (graph.src, graph.dst)]
    features = sparse.hstack(
        [
            _word_features(bag, loader, edges),
            *(sparse.eye_array(len(nodes), format="csr")[columns] for nodes, columns in ends),
        ],
        "csr",
    )
    labels = np.asarray(graph.labels)[edges].astype(np.int64)
    weights, bias = logistic_regression(features, labels, class_weights)
    words, *node_weights = np.split(weights, np.cumsum([bag.config.words, len(ends[0][0])]))
    with torch.no_grad():
        bag.table.copy_(torch.from_numpy(words))
        bag.bias.copy_(torch.from_numpy(bias))
    tables = []
    for (nodes, _), rows in zip(ends, node_weights, strict=True):
        table = torch.zeros(graph.num_nodes, classes)
        table[torch.from_numpy(nodes.astype(np.int64))] = torch.from_numpy(rows).float()
        tables.append(table)
    return LinearEdgeModel(bag, *tables)


def logistic_regression(
    features: "sparse.csr_array", labels: NDArray[np.int64], class_weights: Floats
) -> tuple[Floats, Floats]:
    """Multinomial logistic regression: weights [F, C] with an L2 penalty, and biases [C].

    A class that does not occur has weights of 0 and a low bias.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression  # takes a second to import

    present, target = np.unique(labels, return_inverse=True)
    weights, bias = np.zeros((features.shape[1], len(class_weights))), np.zeros(len(class_weights))
    if len(present) > 1:
        # With two classes, scikit-learn fits their difference, which it penalizes twice as much.
        is_binary = len(present) == 2
        model = LogisticRegression(
            C=INVERSE_PENALTY * (1 + is_binary), max_iter=ITERATIONS, tol=1e-5
        )
        weight = class_weights[labels] / class_weights[labels].mean()
        with warnings.catch_warnings():  # validation decides what it is worth, converged or not
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(features, target, sample_weight=weight)
        coefficients, intercepts = model.coef_, model.intercept_
        if is_binary:
            coefficients, intercepts = (
                np.concatenate([-half, half]) for half in (coefficients / 2, intercepts / 2)
            )
        weights[:, present], bias[present] = coefficients.T, intercepts
    bias[np.setdiff1d(np.arange(len(bias)), present)] = bias.min() - 10.0
    return weights, bias


def _word_features(bag: BagOfWords, loader: EdgeLoader, edges: Ids) -> "sparse.csr_array":
    """The tf-idf vectors of full texts, sparse [n, W]."""
    from scipy import sparse

    parts = []
    for at in range(0, len(edges), CHUNK):
        text = loader.untruncated(edges[at : at + CHUNK]).text
        columns, weights = bag.tfidf_weights(text)
        known = columns >= 0
        cells = (text.text_ids[known].numpy(), columns[known].numpy())
        shape = (text.num_texts, bag.config.words)
        parts.append(sparse.csr_array((weights[known].double().numpy(), cells), shape=shape))
    return sparse.vstack(parts, "csr")
