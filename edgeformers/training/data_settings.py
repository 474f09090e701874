"""Settings of the recipe `default` that follow from the size of a network."""

from typing import Any

from edgeformers.config import Task

SMALL_NETWORK = 30_000  # training links up to which nodes are not shrunk
MAX_SHRINKAGE = 10.0


def size_settings(task: Task, training_links: int) -> dict[str, Any]:
    """Settings by dotted name for a number of training links; none for edge classification.

    On large networks the vectors of nodes with few links overfit, so all are shrunk toward the
    unknown node (evidence in docs/scale.md).
    """
    if task != "link-prediction" or training_links <= SMALL_NETWORK:
        return {}
    shrinkage = MAX_SHRINKAGE * (1 - SMALL_NETWORK / training_links)
    return {"model.node_shrinkage": round(shrinkage, 1)}
