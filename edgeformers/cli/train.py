"""The verb `train`: a network becomes a run."""

from pathlib import Path
from typing import Annotated, get_args

import typer

from edgeformers.cli.options import AsJson, Device, Quiet, metric_lines, say, say_json
from edgeformers.config import RECIPES, Task, parse_setting
from edgeformers.errors import InputError, nearest

EXAMPLES = """\b
Commands that work as pasted:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers train edge-classification network -o run-edges --recipe fast
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
    if as_json:
        say_json({"run": str(out), "task": made.task, "results": results})
        return
    say(f"{out} was finished already" if before else f"{out} is trained")
    say("\n".join(["On the test part:", *metric_lines(results.get("test", {}))]))
    say("\nNext:\n" + "\n".join(_next(chosen, out)))


def _checked_task(task: str) -> Task:
    if task not in get_args(Task):
        raise InputError(f"there is no task '{task}'; {nearest(task, get_args(Task))}")
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
