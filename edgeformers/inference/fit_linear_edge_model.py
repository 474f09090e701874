"""A logistic regression over words and nodes set beside a trained model of edges."""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import log_softmax
from torch import Tensor

from edgeformers.data.document_counts import count_documents
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.loader import EdgeLoader
from edgeformers.data.types import Ids
from edgeformers.evaluation.metrics import SMALLER_IS_BETTER
from edgeformers.models.edge_head import EdgeHead
from edgeformers.models.linear_edge_model import LinearEdgeModel
from edgeformers.nn.bag_of_words import BagOfWords
from edgeformers.training.edge_objective import EdgeObjective

Doubles = NDArray[np.float64]

EDGES = 200_000  # of training: above, it takes minutes, and the trained model has seen enough
WEIGHTS = 5_000_000  # of words and nodes for all classes: more take gigabytes to fit
WORDS = 20_000
INVERSE_PENALTY = 5.0  # the C of scikit-learn
STEPS = 300  # of L-BFGS, at most
CHUNK = 8_192  # edges whose words are counted at once
SHARES = (0.5, 0.35, 0.65, 0.2, 0.8, 0.0)  # of equally good ones the first is taken


def fit_ensemble(objective: EdgeObjective, vectors: Tensor) -> LinearEdgeModel | None:
    """Fit the regression on training edges and set it beside the head; validation says its share.

    `vectors` are those of the validation edges. None where it has nothing to add to the trained
    model, where edges have not one class each, or where the network is too large for it.
    """
    head, train, held = objective.head, objective.parts["train"], objective.parts["val"]
    if head.kind not in ("class", "ordered") or not _fits(objective.loader.graph, train, head):
        return None
    ensemble = _regression(objective.loader, train, head.class_weights.cpu().double().numpy())
    ensemble = ensemble.to(objective.device)
    linear = objective.linear_logits(ensemble, held)
    labels = torch.from_numpy(_labels(objective.loader.graph, held))
    scores = {}
    head.set_ensemble(ensemble)
    for share in SHARES:
        ensemble.share.fill_(share)
        with torch.inference_mode():
            scores[share] = head.metrics(head.predict(vectors, linear), labels)[objective.select]
    sign = -1 if objective.select in SMALLER_IS_BETTER else 1
    best = max(SHARES, key=lambda share: sign * scores[share])
    ensemble.share.fill_(best)
    head.set_ensemble(ensemble if best else None)
    return head.ensemble


def _fits(graph: EdgeTextGraph, edges: Ids, head: EdgeHead) -> bool:
    """Whether the regression takes minutes at most, and little memory."""
    if len(edges) > EDGES:
        return False
    ends = sum(len(np.unique(side[edges])) for side in (graph.src, graph.dst))
    return (WORDS + ends) * head.num_classes <= WEIGHTS


def _regression(loader: EdgeLoader, edges: Ids, class_weights: Doubles) -> LinearEdgeModel:
    """Words and nodes of edges with classes of these weights [C], fitted."""
    graph, classes = loader.graph, len(class_weights)
    counts = count_documents(loader.tokens, edges, loader.tokens.max_tokens)
    bag = BagOfWords.from_counts(counts, len(edges), words=WORDS, width=classes)
    ends = [np.unique(side[edges], return_inverse=True) for side in (graph.src, graph.dst)]
    features = sparse.hstack(
        [_words(bag, loader, edges), *(_one_hots(columns) for _, columns in ends)], "csr"
    )
    weights, bias = regress(features, _labels(graph, edges), class_weights)
    places = np.cumsum([bag.config.words, len(ends[0][0])])
    words, *of_ends = np.split(weights, places)
    with torch.no_grad():
        bag.table.copy_(torch.from_numpy(words))
        bag.bias.copy_(torch.from_numpy(bias))
    tables = []
    for (nodes, _), rows in zip(ends, of_ends, strict=True):
        table = torch.zeros(graph.num_nodes, classes)
        table[torch.from_numpy(nodes.astype(np.int64))] = torch.from_numpy(rows).float()
        tables.append(table)
    return LinearEdgeModel(bag, *tables)


def regress(
    features: sparse.csr_array, labels: NDArray[np.int64], class_weights: Doubles
) -> tuple[Doubles, Doubles]:
    """Multinomial logistic regression: weights [F, C], penalized, and biases [C], which are not.

    The mean of the losses, each with the weight of its class, and |weights|^2 / (2 C n), by L-BFGS.
    """
    (count, width), classes = features.shape, len(class_weights)
    counts_for = class_weights[labels] / class_weights[labels].sum()  # [n]
    right = np.arange(count), labels
    penalty, transposed = 1 / (INVERSE_PENALTY * count), features.T.tocsr()

    def loss(flat: Doubles) -> tuple[float, Doubles]:
        weights, bias = np.split(flat.reshape(width + 1, classes), [width])
        logs = log_softmax(features @ weights + bias, axis=1)
        off = np.exp(logs)
        off[right] -= 1
        off *= counts_for[:, None]
        slope = np.vstack([transposed @ off + penalty * weights, off.sum(0)])
        value = -logs[right] @ counts_for + penalty / 2 * np.square(weights).sum()
        return float(value), slope.ravel()

    start = np.zeros((width + 1) * classes)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    weights, bias = np.split(found.x.reshape(width + 1, classes), [width])
    return weights, bias[0]


def _words(bag: BagOfWords, loader: EdgeLoader, edges: Ids) -> sparse.csr_array:
    """The tf-idf vectors of whole texts, sparse [n, W]."""
    parts = []
    for at in range(0, len(edges), CHUNK):
        text = loader.untruncated(edges[at : at + CHUNK]).text
        columns, weights = bag.tfidf_weights(text)
        known = columns >= 0
        place = (text.text_ids[known].numpy(), columns[known].numpy())
        shape = (text.num_texts, bag.config.words)
        parts.append(sparse.csr_array((weights[known].double().numpy(), place), shape=shape))
    return sparse.vstack(parts, "csr")


def _one_hots(columns: NDArray[np.int64]) -> sparse.csr_array:
    count = len(columns)
    return sparse.csr_array((np.ones(count), (np.arange(count), columns)))


def _labels(graph: EdgeTextGraph, edges: Ids) -> NDArray[np.int64]:
    return np.asarray(graph.labels)[edges].astype(np.int64)
