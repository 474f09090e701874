"""The command `train`: trains a model in a run folder."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from edgeformers.cli.command import OUT, TrainingCommand, argument, choose, option
from edgeformers.cli.evaluate import metric_lines
from edgeformers.config import RunConfig, Task

NEXT_COMMANDS = {
    "edge-classification": """
  edgeformers predict {run} EDGES.csv -o predictions.csv
  edgeformers embed {run} --edges -o edges.parquet""",
    "link-prediction": """
  edgeformers recommend {run} NODE --explain 2
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

\b
On several GPUs:
  torchrun --nproc-per-node 8 -m edgeformers.cli train link-prediction network -o run-8
"""

    task: str = argument(" or ".join(get_args(Task)) + ".")
    network: Path = argument("A prepared network.")
    out: Path = option("Folder of the run.", ..., names=OUT)
    config: Path | None = option("A TOML file of settings that override the recipe.")
    seed: int | None = option("Same as --set train.seed=N.")
    ablate_inputs: bool = option(
        "Also test whether graph and text help, by comparing with models of either one.", False
    )

    def run(self) -> None:
        from edgeformers.runs import is_finished, train_run

        config = self._run_config()
        was_finished = is_finished(self.out)
        results = train_run(self.network, self.out, config, device=self.device, show=not self.quiet)
        values = {"run": str(self.out), "task": config.task, "results": results}
        lines = [f"{self.out} was already finished" if was_finished else f"{self.out} is trained"]
        lines += _test_lines(results.get("test", {}))
        if self.ablate_inputs:
            sentences, values["helps"] = self._ablate_inputs()
            lines += ["", *sentences]
        lines.append("\nNext:" + NEXT_COMMANDS[config.task].format(run=self.out))
        self.print(values, *lines)

    def _run_config(self) -> RunConfig:
        from edgeformers.data.graph import EdgeTextGraph
        from edgeformers.estimators import run_config

        task: Task = choose("task", self.task, get_args(Task))
        settings = self.settings() | ({} if self.seed is None else {"train.seed": self.seed})
        graph = EdgeTextGraph.open(self.network)
        return run_config(task, self.recipe, file=self.config, settings=settings, graph=graph)

    def _ablate_inputs(self) -> tuple[list[str], dict[str, Any]]:
        """Whether graph and text help, as sentences and as plain values."""
        from edgeformers.experiments.input_ablation import ablate_inputs
        from edgeformers.report.scores import conclusion, gain_sentences, task_json
        from edgeformers.runs import open_run

        estimator = open_run(self.out, self.network, device=self.device, show=not self.quiet)
        scores, examples = ablate_inputs(estimator), len(estimator.fitted_.network.parts["test"])
        return [conclusion(scores), *gain_sentences(scores, examples)], task_json(scores)


def _test_lines(results: dict[str, Any]) -> Iterator[str]:
    yield "On the test part:" if results else "The split has no test edges to evaluate on."
    yield from metric_lines(results)
