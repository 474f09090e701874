"""Settings of the recipe `default` that follow from the size of a network."""

from typing import Any

from edgeformers.config import Task

SMALL_NETWORK = 30_000  # training links up to which nodes are not shrunk
MOST_ADDED_EDGES = 10.0


def size_settings(task: Task, training_links: int) -> dict[str, Any]:
    """Settings by dotted name for a number of training links; none for edge classification.

    What all nodes share is learned from all links, a node's own vector from its own links only.
    With many links the average node is the better guess for a node with few, so edges of an
    average node are added to those of every node (docs/scale.md).
    """
    if task != "link-prediction" or training_links <= SMALL_NETWORK:
        return {}
    added = MOST_ADDED_EDGES * (1 - SMALL_NETWORK / training_links)
    return {"model.node_shrinkage": round(added, 1)}
