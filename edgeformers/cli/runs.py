"""The commands that apply a run to edges and nodes: predict, embed, classify-nodes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from edgeformers.cli.command import (
    ENGINE,
    OUT,
    LongCommand,
    RunCommand,
    argument,
    choose,
    leave_pandas_out,
    option,
)
from edgeformers.errors import InputError
from edgeformers.files import json_values

if TYPE_CHECKING:
    from edgeformers.evaluation import SeedSummary
    from edgeformers.inference.node_classification import LabeledNodes


@dataclass(frozen=True, kw_only=True)
class Predict(LongCommand):
    """Predict the labels of a table of edges.

    The output has all columns of the table, the prediction and the probability of each label.
    Sources and targets may be new.
    """

    EXAMPLES = """\b
Examples:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers train edge-classification network -o run-edges --recipe fast
  printf 'source,target,text\\nada,tent,Too small for two.\\n' > new.csv
  edgeformers predict run-edges new.csv -o predictions.csv
"""

    folder: Path = argument("Folder of a trained run.", metavar="RUN")
    edges: str = argument("A table (csv, tsv, jsonl, parquet), or a raw format of `prepare`.")
    out: Path = option("Output file: .parquet, .csv or .jsonl.", ..., names=OUT)
    source: str | None = option("Source ids. [default: source]", metavar="COLUMN")
    target: str | None = option("Target ids. [default: target]", metavar="COLUMN")
    text: str | None = option("Texts. [default: text]", metavar="COLUMN")
    format: str | None = option("Input format, if the file name does not tell.")

    def run(self) -> None:
        from edgeformers.data.readers.files import expand_paths
        from edgeformers.inference.batch_inference import predict_edges, write_rows
        from edgeformers.inference.fitted_edges import FittedEdgeClassifier
        from edgeformers.inference.load import load_fitted

        if self.out.exists() and any(self.out.samefile(p) for p in expand_paths(self.edges)):
            raise InputError(f"{self.out} is the input; write the predictions to another file")
        leave_pandas_out()
        classifier = load_fitted(self.folder, device=self.device)
        if not isinstance(classifier, FittedEdgeClassifier):
            raise InputError(
                f"{self.folder} predicts links; use: edgeformers recommend {self.folder} NODE"
            )
        columns = {"source": self.source, "target": self.target, "text": self.text}
        predictions = predict_edges(
            classifier, self.edges, format=self.format, show=not self.quiet, **columns
        )
        count = write_rows(self.out, predictions)
        self.print({"out": str(self.out), "edges": count}, f"{count:,} predictions: {self.out}")


@dataclass(frozen=True, kw_only=True)
class Embed(RunCommand):
    """Write the vectors of all nodes or edges to a file.

    After an interruption, the same command continues where it stopped.
    """

    EXAMPLES = """\b
Examples:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers train link-prediction network -o run-links --recipe fast
  edgeformers embed run-links --nodes -o nodes.parquet
  edgeformers embed run-links --nodes -o nodes.duckdb
  edgeformers embed run-links --nodes -o parts.parquet --shard 1/4
"""

    out: Path = option("The file to write: .parquet, .faiss or .duckdb.", ..., names=OUT)
    nodes: bool = option("Embed all nodes.", False)
    edges: bool = option("Embed all edges.", False)
    shard: str = option("Embed the i-th of n shards, in its own file.", "1/1", metavar="I/N")
    batch: int | None = option("Texts or nodes encoded at once.")
    int8: bool = option("Quantize on CPU: faster, slightly different vectors.", False)
    overwrite: bool = option("Replace the vectors of another model.", False)
    engine: str = option(ENGINE, "local")

    def run(self) -> None:
        from edgeformers.inference.embed import parse_shard, read_facts
        from edgeformers.inference.vector_formats import embed_to

        if self.nodes == self.edges:
            raise InputError("choose what to embed: --nodes or --edges")
        leave_pandas_out()
        path = embed_to(
            self.folder,
            self.network,
            what="nodes" if self.nodes else "edges",
            out=self.out,
            shard=parse_shard(self.shard),
            batch=self.batch,
            int8=self.int8,
            overwrite=self.overwrite,
            engine=self.engine,
            device=self.device,
            show=not self.quiet,
        )
        facts = read_facts(path.with_suffix(".parquet"))
        count = facts["rows"][1] - facts["rows"][0]
        line = f"{count:,} {facts['what']}, {facts['width']} dimensions: {path}"
        self.print({"out": str(path), **facts}, line)


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
        from edgeformers.inference.fitted_links import FittedLinkPredictor
        from edgeformers.inference.node_classification import (
            ProbeConfig,
            classify_labeled_nodes,
            network_node_labels,
            read_node_labels,
        )

        side: Any = self.node_side
        if side is not None:
            choose("--node-side", side, get_args(Side))
        predictor = self.open()
        if not isinstance(predictor, FittedLinkPredictor):
            raise InputError(f"{self.folder} has vectors of edges; choose a link-prediction run")
        if self.labels is None:
            labeled = network_node_labels(predictor.network.graph, side=side)
        else:
            labeled = read_node_labels(
                predictor.nodes,
                self.labels,
                id=self.node_id,
                labels=self.node_labels,
                label_separator=self.node_label_separator,
                side=side,
            )
        config = ProbeConfig(standardize=self.standardize)
        report = classify_labeled_nodes(
            predictor, labeled, repetitions=self.repetitions, config=config
        )
        summary = {n: {"mean": m.mean, "deviation": m.deviation} for n, m in report.summary.items()}
        values = {
            "run": str(self.folder),
            "nodes": len(labeled),
            "labels": labeled.names,
            "strangers": labeled.strangers,
            "runs": report.runs,
            "summary": json_values(summary),  # the deviation of a single run is null
        }
        self.print(values, *self._lines(labeled, report.summary))

    def _lines(self, labeled: "LabeledNodes", summary: "dict[str, SeedSummary]") -> Iterator[str]:
        from edgeformers.data.card.phrasing import counted
        from edgeformers.report.formatting import format_table

        yield f"{len(labeled):,} nodes with {len(labeled.names):,} labels in {self.folder}:"
        if labeled.strangers:
            rows = counted(labeled.strangers, "labeled row is", "labeled rows are")
            yield f"({rows} left out: the network has no such node)"
        yield from format_table([[n, str(value)] for n, value in summary.items()], left=(0, 1))
