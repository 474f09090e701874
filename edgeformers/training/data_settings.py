"""Settings of the recipe `default` that follow from the size of a network."""

from typing import Any

from edgeformers.config import Task

SMALL_NETWORK = 60_000  # training links up to which nodes are not shrunk
LARGE_NETWORK = 400_000  # training links from which nodes are shrunk most, in fewer epochs
MAX_SHRINKAGE = 30.0
LARGE_EPOCHS = 2


def size_settings(task: Task, training_links: int) -> dict[str, Any]:
    """Settings by dotted name for a number of training links; none for edge classification.

    On large networks the vectors of nodes with few links overfit, so all are shrunk toward the
    unknown node, and later epochs only make it worse (evidence in docs/scale.md).
    """
    if task != "link-prediction" or training_links <= SMALL_NETWORK:
        return {}
    if training_links >= LARGE_NETWORK:
        return {"model.node_shrinkage": MAX_SHRINKAGE, "train.epochs": LARGE_EPOCHS}
    share = (training_links - SMALL_NETWORK) / (LARGE_NETWORK - SMALL_NETWORK)
    return {"model.node_shrinkage": round(share * MAX_SHRINKAGE, 1)}
