"""The commands that train runs and use them: train, evaluate, predict, embed, recommend, ..."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from edgeformers.cli.command import (
    OUT,
    Command,
    RunCommand,
    TrainingCommand,
    argument,
    choose,
    leave_pandas_out,
    option,
)
from edgeformers.config import RunConfig, Task
from edgeformers.errors import InputError
from edgeformers.files import json_values

if TYPE_CHECKING:
    from edgeformers.data.graph import EdgeTextGraph
    from edgeformers.data.node_index import NodeIndex
    from edgeformers.estimators import Reason, Recommendation
    from edgeformers.evaluation import SeedSummary
    from edgeformers.inference.candidate_filter import CandidateFilter
    from edgeformers.inference.fitted_edges import FittedEdgeClassifier
    from edgeformers.inference.fitted_links import FittedLinkPredictor
    from edgeformers.inference.node_classification import LabeledNodes
    from edgeformers.report.verdict import Verdict

ABLATE_INPUTS = (
    "Also test whether the graph, the text and the ensemble help, and store the verdict."
)
ENGINE = "local, or ray: compute on a Ray cluster."
REASON_CHARACTERS = 200  # of a text in the terminal; --full-text and --json print all of it
REASON_KINDS = {
    "history": "because of",
    "other_history": "its other edges",
    "popularity": "popularity, the same for everybody",
    "rest": "the rest",
    "quote": "written by",
}
REASON_COLUMNS = f"{'adds':>14}{'without':>9}"
REASON_NOTE = (
    "adds: sums to the score. without: how the score changes if these edges are removed, computed "
    "again."
)
NO_RATINGS_NOTE = (
    "The network has neither ratings nor --positive labels: reasons are chosen by what they add, "
    "and may be complaints."
)
PROTOCOL_NOTE = (
    "full: ranked among all targets. The other protocols rank among other candidates, so their "
    "values cannot be compared with it."
)
NEXT_COMMANDS = {
    "edge-classification": """
  edgeformers predict {run} EDGES.csv -o predictions.csv
  edgeformers embed {run} --edges -o edges.parquet""",
    "link-prediction": """
  edgeformers recommend {run} {node} --explain 2
  edgeformers embed {run} --nodes -o nodes.parquet""",
}


@dataclass(frozen=True, kw_only=True)
class Train(TrainingCommand):
    """Train a model and evaluate it on the test part.

    An interrupted run resumes where it stopped.
    """

    EXAMPLES = """\b
Examples:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers train edge-classification network -o run-edges --recipe fast --ablate-inputs
  edgeformers train link-prediction network -o run-links --recipe fast
  edgeformers train edge-classification network -o run-seed --config run-edges/config.toml --seed 1
  edgeformers train link-prediction network -o run-next --from run-links

\b
On several GPUs:
  torchrun --nproc-per-node 8 -m edgeformers.cli train link-prediction network -o run-8
"""

    task: str = argument(" or ".join(get_args(Task)) + ".")
    network: Path = argument("A prepared network.")
    out: Path = option("Folder of the run.", ..., names=OUT)
    config: Path | None = option("A TOML file of settings that override the recipe.")
    start_from: Path | None = option(
        "An earlier run to continue from, with its settings.", names=["--from"], metavar="RUN"
    )
    split: str | None = option("Same as --set data.split=NAME.", metavar="NAME")
    seed: int | None = option("Same as --set train.seed=N.")
    ablate_inputs: bool = option(ABLATE_INPUTS, False)
    log_to: list[str] | None = option(
        "Also log to tensorboard, wandb or mlflow. Repeatable.", metavar="NAME"
    )

    def run(self) -> None:
        from edgeformers.data.graph import EdgeTextGraph
        from edgeformers.inference.fitted import choose_split
        from edgeformers.report.verdict import read_verdict
        from edgeformers.runs import open_run, read_results, trained_run
        from edgeformers.training.callbacks import make_callback

        callbacks = [make_callback(name) for name in self.log_to or ()]
        config = self._run_config()
        estimator = trained_run(
            self.network,
            self.out,
            config,
            device=self.device,
            show=not self.quiet,
            callbacks=callbacks,
        )
        results = read_results(self.out)
        values = {"run": str(self.out), "task": config.task, "results": results}
        lines = [f"{self.out} {'is trained' if estimator else 'was already finished'}"]
        test = results.get("test", {})
        graph = EdgeTextGraph.open(self.network)
        where = f"On the test part of {split_title(graph, choose_split(config, graph))}:"
        lines.append(where if test else "The split has no test edges to evaluate on.")
        lines += metric_lines(test)
        if self.ablate_inputs:
            from edgeformers.experiments.input_ablation import ablate_inputs

            show = not self.quiet
            estimator = estimator or open_run(self.out, self.network, device=self.device, show=show)
            ablate_inputs(estimator, run=self.out)
        verdict = read_verdict(self.out)
        if verdict is not None:
            values["verdict"] = asdict(verdict)
            lines += ["", verdict.sentence, *verdict.evidence]
        node = shlex.quote(graph.node_index.ids_of([0])[0])
        lines.append("\nNext:" + NEXT_COMMANDS[config.task].format(run=self.out, node=node))
        self.print(values, *lines)

    def _run_config(self) -> RunConfig:
        from edgeformers.data.graph import EdgeTextGraph
        from edgeformers.estimators import run_config
        from edgeformers.inference.encode import choose_device

        task: Task = choose("task", self.task, get_args(Task))
        settings = self.settings() | ({} if self.seed is None else {"train.seed": self.seed})
        if self.start_from is not None:
            settings["train.start_from"] = str(self.start_from)
        settings |= {} if self.split is None else {"data.split": self.split}
        graph = EdgeTextGraph.open(self.network)
        device = choose_device(self.device)
        return run_config(
            task, self.recipe, file=self.config, settings=settings, graph=graph, device=device
        )


@dataclass(frozen=True, kw_only=True)
class Evaluate(RunCommand):
    """Evaluate a trained model on a part of its split.

    Metrics come with 95% confidence intervals.
    """

    EXAMPLES = """\b
Examples:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers train edge-classification network -o run-edges --recipe fast
  edgeformers evaluate run-edges
  edgeformers evaluate run-edges --ablate-inputs
  edgeformers evaluate run-edges --part val --json
"""

    part: str = option("train, val or test.", "test")
    ablate_inputs: bool = option(ABLATE_INPUTS, False)

    def run(self) -> None:
        part = choose("part", self.part, ("train", "val", "test"))
        fitted = self.open()
        task, network = fitted.config.task, fitted.network
        count = len(network.parts[part])
        if not count:
            raise InputError(f"the part '{part}' of the split is empty; choose another part")
        results = fitted.evaluate(part)
        verdict = self._verdict(fitted)
        examples = "edges" if task == "edge-classification" else "links"
        self.print(
            {
                "run": str(self.folder),
                "task": task,
                "split": network.split,
                "part": part,
                "results": results,
                "verdict": None if verdict is None else asdict(verdict),
            },
            f"{self.folder} on {count:,} {examples} of the {part} part of "
            f"{split_title(network.graph, network.split)}:",
            *metric_lines(results),
            *(["", *self._verdict_lines(verdict)] if part == "test" else []),
        )

    def _verdict(self, fitted: "FittedEdgeClassifier | FittedLinkPredictor") -> "Verdict | None":
        """The stored verdict of the run, or a new one; that of a saved model is not stored."""
        from edgeformers.report.verdict import read_verdict

        if not self.ablate_inputs:
            return read_verdict(self.folder)
        from edgeformers.experiments.input_ablation import ablate_inputs
        from edgeformers.runs import ESTIMATORS
        from edgeformers.training.run_folder import CONFIG

        estimator: Any = ESTIMATORS[fitted.config.task]
        is_run = (self.folder / CONFIG).is_file()
        return ablate_inputs(estimator.from_fitted(fitted), run=self.folder if is_run else None)

    def _verdict_lines(self, verdict: "Verdict | None") -> list[str]:
        from edgeformers.report.verdict import NOT_TESTED

        if verdict is None:
            return [NOT_TESTED.replace("RUN", str(self.folder))]
        return [verdict.sentence, *verdict.evidence]


@dataclass(frozen=True, kw_only=True)
class Predict(Command):
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
    device: str | None = option("cpu or cuda. [default: a GPU if available]")

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
        predictions = predict_edges(classifier, self.edges, format=self.format, **columns)
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
class Index(RunCommand):
    """Encode the nodes of a link run, to recommend fast.

    The index is written to RUN/index. `recommend` and `serve` use it from then on.
    """

    EXAMPLES = """\b
Examples:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers train link-prediction network -o run-links --recipe fast
  edgeformers index run-links
  edgeformers recommend run-links user-000001
"""

    def run(self) -> None:
        from edgeformers.inference.fitted_links import FittedLinkPredictor
        from edgeformers.inference.index import FOLDER, LinkIndex

        predictor = self.open()
        if not isinstance(predictor, FittedLinkPredictor):
            raise InputError(f"{self.folder} classifies edges; index a link-prediction run")
        index = LinkIndex.build(predictor, self.folder / FOLDER, show=not self.quiet)
        facts = index.facts
        self.print(
            {"index": str(index.folder), **asdict(facts)},
            f"{index.folder}: {facts.targets:,} targets, {facts.width:,} columns, "
            f"{facts.bytes / 1e6:,.1f} MB, in {facts.seconds:.1f} s",
            f"{facts.kind} search, recall@10 {facts.recall_at_10:.4f} on {facts.queries} sources",
        )


@dataclass(frozen=True, kw_only=True)
class Recommend(RunCommand):
    """Recommend targets to a source, a new one, or all of them.

    With --explain, a recommendation comes with what decided, and with what its score consists of:
    edges of the source that speak for this target in particular, its other edges, what is the same
    for everybody, and the rest; then what others wrote about the target.
    """

    EXAMPLES = """\b
Examples:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers train link-prediction network -o run-links --recipe fast
  edgeformers recommend run-links user-000001 -k 3 --explain 2
  edgeformers recommend run-links --likes "item-000001=My tent is excellent." --likes item-000009
  edgeformers recommend run-links --all -o tonight.parquet
"""

    node: str | None = argument("Id of the source.", None)
    k: int = option("Number of recommendations.", 10, names=["-k"])
    likes: list[str] | None = option(
        "An edge of a new source: a target, and a text if there is one. Repeatable.",
        metavar="TARGET=TEXT",
    )
    explain: int = option("Edges of the source to show as reasons for each recommendation.", 0)
    full_text: bool = option("With --explain, do not shorten texts.", False)
    include_seen: bool = option("Include targets that are already linked.", False)
    allow: list[str] | None = option(
        "Recommend only these: an id, or a file with an id per line. Repeatable.",
        metavar="ID|FILE",
    )
    deny: list[str] | None = option(
        "Never recommend these: an id, or a file with an id per line. Repeatable.",
        metavar="ID|FILE",
    )
    label: list[str] | None = option("Recommend only nodes with this node label. Repeatable.")
    everyone: bool = option("Recommend to all sources.", False, names=["--all"])
    out: Path | None = option("With --all, output file: .parquet, .csv or .jsonl.", names=OUT)
    engine: str = option(f"With --all: {ENGINE}", "local")

    def run(self) -> None:
        from edgeformers.inference.explain import knows_favorable
        from edgeformers.inference.fitted_links import FittedLinkPredictor

        self._check()
        if self.out is not None:
            self._recommend_to_all(self.out)
            return
        predictor, exclude_seen = self.open(), not self.include_seen
        if not isinstance(predictor, FittedLinkPredictor):
            command = f"edgeformers predict {self.folder} EDGES.csv -o OUT.csv"
            raise InputError(f"{self.folder} classifies edges; use: {command}")
        edges = self._edges(predictor.nodes)
        recommendations = predictor.recommend(
            self.node,
            self.k,
            exclude_seen=exclude_seen,
            edges=edges,
            explain=self.explain,
            candidates=self._candidates(),
        )
        lines = recommendation_lines(recommendations, full_text=self.full_text) or [
            f"{self.node or 'this source'} is already linked to every target that may be "
            "recommended; pass --include-seen to rank those"
        ]
        if 0 < len(recommendations) < self.k and exclude_seen and not self.likes:
            lines.append(
                f"The other targets are already linked to {self.node}; see --include-seen."
            )
        if self.explain and not knows_favorable(predictor.network.graph):
            lines.append(NO_RATINGS_NOTE)
        values = [asdict(recommendation) for recommendation in recommendations]
        self.print({"node": self.node, "recommendations": values}, *lines)

    def _recommend_to_all(self, out: Path) -> None:
        from edgeformers.inference.batch_inference import write_recommendations

        leave_pandas_out()
        count = write_recommendations(
            self.folder,
            out,
            self.k,
            network=self.network,
            exclude_seen=not self.include_seen,
            candidates=self._candidates(),
            engine=self.engine,  # type: ignore[arg-type]  # checked there
            device=self.device,
            show=not self.quiet,
        )
        line = f"{count:,} recommendations: {out}"
        self.print({"out": str(out), "recommendations": count}, line)

    def _candidates(self) -> "CandidateFilter | None":
        from edgeformers.inference.candidate_filter import CandidateFilter

        if not (self.allow or self.deny or self.label):
            return None
        return CandidateFilter(
            allow=_listed(self.allow) if self.allow else None,
            deny=_listed(self.deny or []),
            labels=self.label or (),
        )

    def _edges(self, nodes: "NodeIndex") -> list[tuple[str, str]] | None:
        """The edges of a new source; an id may contain `=`."""
        if not self.likes:
            return None
        edges = []
        for like, number in zip(self.likes, nodes.numbers(self.likes, "target"), strict=True):
            target, _, text = (like, "", "") if number >= 0 else like.partition("=")
            edges.append((target, text))
        nodes.known_numbers([target for target, _ in edges], "target")  # raises if one is unknown
        return edges

    def _check(self) -> None:
        if [self.node is not None, bool(self.likes), self.everyone].count(True) != 1:
            raise InputError(
                "give the id of a source, pass --all, or describe a new source with --likes"
            )
        if self.everyone and self.out is None:
            raise InputError("--all needs an output file: -o FILE.parquet")
        if not self.everyone and self.out is not None:
            raise InputError("-o needs --all; the recommendations to one source are printed")
        if not self.everyone and self.engine != "local":
            raise InputError("--engine needs --all; leave it out for one source")
        if self.everyone and self.explain:
            raise InputError("--explain works for one source; leave out --all")


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


def _listed(values: list[str]) -> list[str]:
    """Ids, and those in files of one id per line."""
    listed = []
    for value in values:
        path = Path(value)
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else [value]
        listed += [line for line in map(str.strip, lines) if line]
    return listed


def split_title(graph: "EdgeTextGraph", split: str) -> str:
    """A split by its name and how it was made, as in `prepare --split`."""
    return f"the split {graph.split_configs[split].to_text() if split in graph.splits else split}"


def metric_lines(results: Mapping[str, Any]) -> list[str]:
    """Metrics with their intervals, one line each; those of links one line per protocol."""
    from edgeformers.report.formatting import format_table

    def interval(name: str) -> str:
        bounds = results.get(f"{name}_interval")
        return "" if bounds is None else f"{bounds[0]:.4f} to {bounds[1]:.4f}"

    values = {name: value for name, value in results.items() if isinstance(value, int | float)}
    protocols = list(dict.fromkeys(name.partition("/")[0] for name in values if "/" in name))
    if not protocols:
        rows = [[name, f"{v:.4f}", interval(name)] for name, v in values.items()]
        return format_table(rows, left=(0, 2))
    metrics = [name.partition("/")[2] for name in values if name.startswith(f"{protocols[0]}/")]
    rows = [["protocol", *metrics, "95% interval of mrr"]]
    for protocol in protocols:
        cells = (f"{values[f'{protocol}/{metric}']:.4f}" for metric in metrics)
        rows.append([protocol, *cells, interval(f"{protocol}/mrr")])
    lines = [*format_table(rows, left=(0, len(metrics) + 1)), PROTOCOL_NOTE]
    groups = results.get("groups", {}).get("full", {})
    if groups.get("cold", {}).get("pairs"):
        kinds = {"warm": "links between known nodes", "cold": "links with a new node"}
        means = [
            f"{groups[name]['metrics']['mrr']:.4f} on {groups[name]['pairs']:,} {kind}"
            for name, kind in kinds.items()
            if groups[name]["pairs"]
        ]
        lines.append(f"full/mrr: {', '.join(means)}")
    if recommended := results.get("recommendations"):
        values = {name.replace("_", " "): value for name, value in recommended.items()}
        judged = ", ".join(f"{name} {value:.3f}" for name, value in values.items())
        lines.append(f"ten recommendations per source: {judged}")
    return lines


def recommendation_lines(
    recommendations: "list[Recommendation]", *, full_text: bool = False
) -> list[str]:
    """A line per recommendation, followed by its reasons and quotes."""
    from edgeformers.report.formatting import format_table

    rows = [
        [str(i), r.node, f"{r.score:.3f}", r.decision] for i, r in enumerate(recommendations, 1)
    ]
    lines: list[str] = []
    for line, one in zip(format_table(rows, left=(1, 3)), recommendations, strict=True):
        lines.append(line.rstrip())
        reasons = [reason for reason in [*one.because, *one.quotes] if round(reason.weight, 3)]
        lines += [REASON_COLUMNS] if reasons else []
        lines += [_reason_line(reason, full_text) for reason in reasons]
    return [*lines, REASON_NOTE] if REASON_COLUMNS in lines else lines


def _reason_line(reason: "Reason", full_text: bool) -> str:
    from edgeformers.data.card.phrasing import shorten

    weight = "" if reason.kind == "quote" else f"{reason.weight:.3f}"
    effect = "" if reason.effect is None else f"{-reason.effect:+.3f}"
    kind = REASON_KINDS.get(reason.kind, reason.kind.replace("_", " "))
    node = f" {reason.node}" if reason.node else ""
    label = f" ({reason.label})" if reason.label else ""
    text = reason.text if full_text else shorten(reason.text, REASON_CHARACTERS)
    return f"{weight:>14}{effect:>9}  {kind}{node}{label}" + (f": {text}" if text else "")
