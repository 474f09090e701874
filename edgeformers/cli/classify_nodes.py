"""The command `classify-nodes`: how well node vectors predict node labels."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from edgeformers.cli.command import RunCommand, choose, option
from edgeformers.errors import InputError

if TYPE_CHECKING:
    from edgeformers.estimators import LinkPredictor
    from edgeformers.evaluation import SeedSummary
    from edgeformers.inference.node_labels import LabeledNodes


@dataclass(frozen=True, kw_only=True)
class ClassifyNodes(RunCommand):
    """Evaluate node vectors by classifying labeled nodes.

    A logistic regression is fitted to the frozen vectors on several random splits.
    """

    EXAMPLES = """\b
Examples:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers train link-prediction network -o run-links --recipe fast
  edgeformers classify-nodes run-links --node-side target

\b
With a table of your own:
  edgeformers classify-nodes run --labels products.csv --node-id product --node-labels kind
"""

    labels: str | None = option("A table of nodes. [default: the network's labels]", metavar="FILE")
    node_id: str = option("Node ids.", "node", metavar="COLUMN")
    node_labels: str = option("Node labels.", "label", metavar="COLUMN")
    node_label_separator: str | None = option("Separator between the labels of a node.")
    node_side: str | None = option("source or target, if ids occur on both sides.")
    repetitions: int = option("Random splits to fit and test on.", 5)
    standardize: bool = option("Scale vectors to mean 0 and deviation 1.", False)

    def run(self) -> None:
        from edgeformers.data.types import Side
        from edgeformers.estimators import LinkPredictor
        from edgeformers.inference.node_classification import ProbeConfig
        from edgeformers.inference.node_labels import classify_labeled_nodes

        if self.node_side is not None:
            choose("--node-side", self.node_side, get_args(Side))
        predictor = self.open()
        if not isinstance(predictor, LinkPredictor):
            raise InputError(f"{self.folder} has vectors of edges; choose a link-prediction run")
        labeled = self._labeled_nodes(predictor)
        config = ProbeConfig(standardize=self.standardize)
        report = classify_labeled_nodes(
            predictor, labeled, repetitions=self.repetitions, config=config
        )
        values = {
            "run": str(self.folder),
            "nodes": len(labeled),
            "labels": labeled.names,
            "strangers": labeled.strangers,
            "runs": report.runs,
            "summary": {name: _to_json(metric) for name, metric in report.summary.items()},
        }
        self.print(values, *self._lines(labeled, report.summary))

    def _labeled_nodes(self, predictor: "LinkPredictor") -> "LabeledNodes":
        from edgeformers.inference.node_labels import network_node_labels, read_node_labels

        side: Any = self.node_side
        if self.labels is None:
            return network_node_labels(predictor.fitted_.network.graph, side=side)
        return read_node_labels(
            predictor.fitted_.nodes,
            self.labels,
            id=self.node_id,
            labels=self.node_labels,
            label_separator=self.node_label_separator,
            side=side,
        )

    def _lines(self, labeled: "LabeledNodes", summary: "dict[str, SeedSummary]") -> Iterator[str]:
        from edgeformers.data.card.phrasing import counted
        from edgeformers.report.terminal import format_table

        yield f"{len(labeled):,} nodes with {len(labeled.names):,} labels in {self.folder}:"
        if labeled.strangers:
            rows = counted(labeled.strangers, "labeled row is", "labeled rows are")
            yield f"({rows} left out: the network has no such node)"
        yield from format_table([[n, str(value)] for n, value in summary.items()], left=(0, 1))


def _to_json(metric: "SeedSummary") -> dict[str, Any]:
    """Mean and deviation; the deviation of a single run is null."""
    deviation = None if math.isnan(metric.deviation) else metric.deviation
    return {"mean": metric.mean, "deviation": deviation}
