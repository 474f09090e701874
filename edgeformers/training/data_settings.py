"""Settings of the recipe `default` that follow from the size of a network."""

from typing import Any

from edgeformers.config import Task

SMALL_NETWORK = 60_000  # training links up to which nodes are not shrunk
LARGE_NETWORK = 400_000  # training links from which nodes are shrunk most, in fewer epochs
MAX_SHRINKAGE = 30.0
LARGE_EPOCHS = 2
PRIOR_EDGES = 100_000  # labeled training edges from which they predict node vectors
PRIOR_NODE_RATE = 3e-4  # learning rate of the node table, which then overfits if it is higher


def size_settings(task: Task, training_links: int) -> dict[str, Any]:
    """Settings by dotted name for a number of training links, or of labeled training edges.

    On large networks the vectors of nodes with few links overfit, so all are shrunk toward the
    unknown node, and later epochs only make it worse. The vectors of edge classification are
    predicted from labeled edges instead (evidence in docs/scale.md).
    """
    if task == "edge-classification":
        if training_links < PRIOR_EDGES:
            return {}
        return {"model.node_prior": True, "train.node_lr": PRIOR_NODE_RATE}
    if training_links <= SMALL_NETWORK:
        return {}
    if training_links >= LARGE_NETWORK:
        return {"model.node_shrinkage": MAX_SHRINKAGE, "train.epochs": LARGE_EPOCHS}
    share = (training_links - SMALL_NETWORK) / (LARGE_NETWORK - SMALL_NETWORK)
    return {"model.node_shrinkage": round(share * MAX_SHRINKAGE, 1)}
