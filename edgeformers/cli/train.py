"""The commands that train runs and judge them: train, evaluate."""

import math
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from edgeformers.cli.command import (
    OUT,
    RunCommand,
    TrainingCommand,
    argument,
    choose,
    option,
)
from edgeformers.config import RunConfig, Task
from edgeformers.errors import InputError

if TYPE_CHECKING:
    from edgeformers.data.graph import EdgeTextGraph
    from edgeformers.evaluation import LinkReport
    from edgeformers.inference.fitted_edges import FittedEdgeClassifier
    from edgeformers.inference.fitted_links import FittedLinkPredictor
    from edgeformers.report.verdict import Verdict

ABLATE_INPUTS = (
    "Also test whether the graph, the text and the ensemble help, and store the verdict."
)
PROTOCOL_NOTE = (
    "full: ranked among all targets. The other protocols rank among other candidates, so their "
    "values cannot be compared with it."
)
SMALL_BATCH_NOTE = (
    "paper: the last of {batches} batches has only {pairs} to rank, which is easy, and counts as "
    "much as any other."
)
SMALL_BATCH, FEW_BATCHES = 10, 10  # fewer pairs, and at most so many batches: the note is printed
KNOWN = "between known nodes"
LINK_KINDS = {  # protocol -> groups whose MRR is printed, unless all links are between known nodes
    "full": {"warm": KNOWN, "cold": "with a new node"},
    "rolling": {
        "both known": KNOWN,
        "new source": "with a new source",
        "new target": "with a new target",
    },
}
ROLLING_NOTE = (
    "rolling: {}, each ranked as of its own time, like a recommendation, using all earlier edges. "
    "Left out are links whose pair already had an edge or whose target had no link. A link with a "
    "new source may also have a new target."
)
COMPARED = (
    "rolling/mrr on {links}, those that came after the training and validation of both runs: "
    "{own} {own_mrr:.4f}, {run} {mrr:.4f}, difference {difference:+.4f}{interval}"
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
        is_chronological = graph.split_config(choose_split(config, graph)).how == "chronological"
        if test and is_chronological and config.task == "link-prediction":
            lines.append(f"  edgeformers evaluate {self.out} --rolling")
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
    rolling: bool = option(
        "Also rank each link as of its own time, using all earlier edges. Requires a "
        "chronological split.",
        False,
    )
    compare: Path | None = option(
        "Another run, such as last night's, to compare with on the same links, each as of its own "
        "time. Implies --rolling.",
        metavar="RUN",
    )
    ablate_inputs: bool = option(ABLATE_INPUTS, False)

    def run(self) -> None:
        from edgeformers.data.card.phrasing import counted

        part = choose("part", self.part, ("train", "val", "test"))
        fitted = self.open()
        task, network = fitted.config.task, fitted.network
        count = len(network.parts[part])
        if not count:
            raise InputError(f"the part '{part}' of the split is empty; choose another part")
        other = None if self.compare is None else self._open_other(self.compare, fitted)
        rolling = self._rank_rolling(fitted, part) if self.rolling or other else None
        results = fitted.evaluate(part)
        notes = []
        if rolling is not None:
            metrics = rolling.results(fitted.config.train.seed)
            groups = results["groups"] | metrics["groups"]
            results = {**results, **metrics, "groups": groups}
            number = len(rolling.ranks["rolling"])
            notes = [ROLLING_NOTE.format(counted(number, "link", "links"))]
            if other is not None:
                results["compared"] = compared = self._compare(rolling, other, fitted, part)
                notes.append(self._compared_line(compared))
        verdict = self._verdict(fitted)
        example = "edge" if task == "edge-classification" else "link"
        self.print(
            {
                "run": str(self.folder),
                "task": task,
                "split": network.split,
                "part": part,
                "results": results,
                "verdict": None if verdict is None else asdict(verdict),
            },
            f"{self.folder} on {counted(count, example, f'{example}s')} of the {part} part of "
            f"{split_title(network.graph, network.split)}:",
            *metric_lines(results),
            *(small_batch_lines(count) if task == "link-prediction" else []),
            *notes,
            *(["", *self._verdict_lines(verdict)] if part == "test" else []),
        )

    def _open_other(
        self, run: Path, fitted: "FittedEdgeClassifier | FittedLinkPredictor"
    ) -> "FittedLinkPredictor":
        """The run to compare with."""
        from edgeformers.inference.load import load_fitted
        from edgeformers.inference.rolling import check_comparable

        loaded = load_fitted(run, device=self.device, show=not self.quiet)
        own = _link_predictor(fitted, self.folder, "--compare")
        other = _link_predictor(loaded, run, "--compare")
        path = other.network_path
        if path is None or not path.is_dir():
            raise InputError(
                f"the network of {run} is no longer at '{path}'; move it back to compare the runs"
            )
        check_comparable(own, other)
        return other

    def _compare(
        self, report: "LinkReport", other: "FittedLinkPredictor", fitted: Any, part: str
    ) -> dict[str, Any]:
        """The MRR of this run and another one on the links that are new to both."""
        from edgeformers.evaluation import compare_paired
        from edgeformers.inference.rolling import compare_rolling

        own, before = compare_rolling(fitted, other, part, own=report, show=not self.quiet)
        ours, theirs = (each.values("rolling", "mrr") for each in (own, before))
        if not len(ours):
            raise InputError(
                f"no link of the {part} part came after the training and validation of both "
                f"{self.folder} and {self.compare}; leave --compare out"
            )
        found = compare_paired(ours, theirs, fitted.config.train.seed, groups=own.queries)
        return {
            "run": str(self.compare),
            "links": len(ours),
            "own_mrr": float(ours.mean()),
            "mrr": float(theirs.mean()),
            "difference": found.difference.value,
            "interval": [found.difference.low, found.difference.high],
            "p_value": found.p_value,
        }

    def _compared_line(self, compared: Mapping[str, Any]) -> str:
        from edgeformers.data.card.phrasing import counted

        links, (low, high) = counted(compared["links"], "link", "links"), compared["interval"]
        interval = "" if math.isnan(low) else f" (95% interval {low:+.4f} to {high:+.4f})"
        facts = {**compared, "own": self.folder, "links": links, "interval": interval}
        return COMPARED.format(**facts)

    def _rank_rolling(
        self, fitted: "FittedEdgeClassifier | FittedLinkPredictor", part: str
    ) -> "LinkReport":
        """The ranks of links as of the time of each."""
        from edgeformers.inference.rolling import report_rolling

        links = _link_predictor(fitted, self.folder, "--rolling")
        report = report_rolling(links, part, show=not self.quiet)
        if not len(report.ranks["rolling"]):
            raise InputError(
                f"no link of the {part} part can be ranked over time: every pair already had an "
                "edge, or the target had no link; leave --rolling out"
            )
        return report

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


def _link_predictor(
    fitted: "FittedEdgeClassifier | FittedLinkPredictor", folder: Path, option: str
) -> "FittedLinkPredictor":
    """The model of a run; an InputError if it classifies edges, which the option cannot use."""
    from edgeformers.inference.fitted_links import FittedLinkPredictor

    if not isinstance(fitted, FittedLinkPredictor):
        raise InputError(f"{option} ranks links, but {folder} classifies edges; leave it out")
    return fitted


def split_title(graph: "EdgeTextGraph", split: str) -> str:
    """A split by its name and how it was made, as in `prepare --split`."""
    return f"the split {graph.split_configs[split].to_text() if split in graph.splits else split}"


def small_batch_lines(pairs: int) -> list[str]:
    """A line if the last batch of `paper` is so small that it distorts the mean over batches."""
    from edgeformers.data.card.phrasing import counted
    from edgeformers.evaluation.ranking import BATCH

    batches, last = math.ceil(pairs / BATCH), pairs % BATCH
    if not (0 < last < SMALL_BATCH and 1 < batches <= FEW_BATCHES):
        return []
    return [SMALL_BATCH_NOTE.format(batches=batches, pairs=counted(last, "pair", "pairs"))]


def metric_lines(results: Mapping[str, Any]) -> list[str]:
    """Metrics with their intervals, one line each; those of links one line per protocol."""
    from edgeformers.data.card.phrasing import counted
    from edgeformers.files import json_values
    from edgeformers.inference.model_card import format_interval
    from edgeformers.report.formatting import format_table

    values = {name: value for name, value in results.items() if isinstance(value, int | float)}
    protocols = list(dict.fromkeys(name.partition("/")[0] for name in values if "/" in name))
    if not protocols:
        rows = [[name, f"{v:.4f}", format_interval(results, name)] for name, v in values.items()]
        return format_table(rows, left=(0, 2))
    metrics = [name.partition("/")[2] for name in values if name.startswith(f"{protocols[0]}/")]
    rows = [["protocol", *metrics, "95% interval of mrr"]]
    for protocol in protocols:
        cells = (f"{values[f'{protocol}/{metric}']:.4f}" for metric in metrics)
        rows.append([protocol, *cells, format_interval(results, f"{protocol}/mrr")])
    lines = [*format_table(rows, left=(0, len(metrics) + 1)), PROTOCOL_NOTE]
    for protocol, kinds in LINK_KINDS.items():
        groups = results.get("groups", {}).get(protocol, {})
        shown = [name for name in kinds if name in groups and groups[name]["pairs"]]
        means = (
            f"{groups[name]['metrics']['mrr']:.4f} on "
            f"{counted(groups[name]['pairs'], 'link', 'links')} {kinds[name]}"
            for name in shown
        )
        if any(kinds[name] != KNOWN for name in shown):
            lines.append(f"{protocol}/mrr: {', '.join(means)}")
    if recommended := results.get("recommendations"):
        judged = ", ".join(
            f"{name.replace('_', ' ')} {value:.3f}"
            for name, value in json_values(recommended).items()
            if value is not None  # no source had a link in training, say
        )
        lines.append(f"ten recommendations per source: {judged}")
    return lines
