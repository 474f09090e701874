"""The verb `train`: a network becomes a run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from edgeformers.cli.options import AsJson, Device, Quiet, metric_lines, say, say_json
from edgeformers.config import RECIPES, Task, parse_setting
from edgeformers.errors import InputError, suggest

EXAMPLES = """\b
Commands that work as pasted:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers train edge-classification network -o run-edges --recipe fast --judge
  edgeformers train link-prediction network -o run-links --recipe fast
  edgeformers train edge-classification network -o run-seed --config run-edges/config.toml --seed 1

\b
On several GPUs:
  torchrun --nproc-per-node 8 -m edgeformers.cli train link-prediction network -o run-8
"""


def train_command(
    task: Annotated[str, typer.Argument(help=" or ".join(get_args(Task)) + ".")],
    network: Annotated[Path, typer.Argument(help="A prepared network.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the run.")],
    recipe: Annotated[
        str | None,
        typer.Option(help=f"Settings to start from: {', '.join(RECIPES)}. [default]"),
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(help="minilm, a folder, a hub name, or scratch:2x64 (untrained)."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file of settings over the recipe's.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="One setting: train.lr=3e-5; may be repeated."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same as --set train.seed=N.")] = None,
    judge: Annotated[
        bool,
        typer.Option(
            "--judge",
            help="Then tell whether graph and text help: beside simple models of either alone.",
        ),
    ] = False,
    device: Device = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train a model, and score it on the test part; run again, it goes on where it stopped."""
    from edgeformers.estimators import run_config
    from edgeformers.runs import is_finished, read_results, train_run

    chosen = _checked_task(task)
    settings = dict(map(parse_setting, set_ or ()))
    settings |= {} if backbone is None else {"model.backbone": backbone}
    settings |= {} if seed is None else {"train.seed": seed}
    made = run_config(chosen, recipe, file=config, settings=settings)
    before = is_finished(out)
    train_run(network, out, made, device=device, show=not quiet)
    results = read_results(out)
    helps = _helps(network, out, device, show=not quiet) if judge else None
    if as_json:
        told = {} if helps is None else {"helps": helps.for_machines}
        say_json({"run": str(out), "task": made.task, "results": results, **told})
        return
    say(f"{out} was finished already" if before else f"{out} is trained")
    say("\n".join(["On the test part:", *metric_lines(results.get("test", {}))]))
    if helps is not None:
        say("\n".join(["", *helps.lines]))
    say("\nNext:\n" + "\n".join(_next(chosen, out)))


@dataclass(frozen=True, kw_only=True)
class _Helps:
    """Whether graph and text help, in sentences and for machines."""

    lines: list[str]
    for_machines: dict[str, Any]


def _helps(network: Path, run: Path, device: str | None, *, show: bool) -> _Helps:
    from edgeformers.experiments.input_ablation import ablate_inputs
    from edgeformers.report.conclusions import conclusion, gain_sentences, task_json
    from edgeformers.runs import open_run

    made = open_run(run, network, device=device, show=show)
    task, examples = ablate_inputs(made), len(made.objective.parts["test"])
    return _Helps(
        lines=[conclusion(task), *gain_sentences(task, examples)], for_machines=task_json(task)
    )


def _checked_task(task: str) -> Task:
    if task not in get_args(Task):
        raise InputError(f"there is no task '{task}'; {suggest(task, get_args(Task))}")
    return "edge-classification" if task == "edge-classification" else "link-prediction"


def _next(task: Task, run: Path) -> list[str]:
    if task == "edge-classification":
        return [
            f"  edgeformers predict {run} EDGES.csv -o predictions.csv",
            f"  edgeformers embed {run} --edges -o edges.parquet",
        ]
    return [
        f"  edgeformers recommend {run} NODE --explain 2",
        f"  edgeformers embed {run} --nodes -o nodes.parquet",
    ]
