"""The verb `reproduce`: a table or a figure of the paper, on any network."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from edgeformers.cli.options import AsJson, Device, Quiet, say, say_json
from edgeformers.config import RECIPES, parse_setting
from edgeformers.errors import InputError

EXAMPLES = """\b
Commands that work as pasted:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers reproduce edge-classification --data network -o paper --recipe fast --dry-run
  edgeformers reproduce edge-classification --data network -o paper --recipe fast --seeds 2 --models tfidf,edgeformer-e
  edgeformers reproduce tables paper --format latex

\b
On a dataset of the paper, with its settings and its numbers beside ours:
  edgeformers prepare amazon-apps reviews_Apps_for_Android_5.json.gz -o apps
  edgeformers reproduce link-prediction --data apps -o paper-apps --recipe paper
"""  # noqa: E501
TABLES = "tables"


def reproduce_command(
    what: Annotated[
        str,
        typer.Argument(
            help="edge-classification, link-prediction, cold-start, ablation, node-classification, "
            "efficiency, embedding-plot, node-dimension, neighbor-size, attention-map; or tables: "
            "make those of finished runs again."
        ),
    ],
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Of 'tables': folders of experiments.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="A prepared network.")] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder of all runs and tables.")
    ] = Path("reproduced"),
    recipe: Annotated[
        str, typer.Option(help=f"Settings to start from: {', '.join(RECIPES)}.")
    ] = "default",
    backbone: Annotated[
        str | None, typer.Option(help="The same as --set model.backbone=NAME.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs of each row.")] = 3,
    models: Annotated[str | None, typer.Option(help="Only these rows: bert,edgeformer-e.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="One setting; may be repeated."),
    ] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="Try each model's grid on validation first.")
    ] = False,
    values: Annotated[
        str | None, typer.Option(help="Of the setting that a study varies: 2,4,8.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Of nodes: a table with the columns node and label.")
    ] = None,
    rounds: Annotated[int, typer.Option(help="Of 'efficiency': batches timed.")] = 20,
    published: Annotated[
        str | None, typer.Option(help="The paper's dataset whose numbers stand beside ours.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Runs side by side. [one on a CPU, what fits on a GPU]")
    ] = None,
    drop_models: Annotated[
        bool, typer.Option("--drop-models", help="Keep no model once it is scored.")
    ] = False,
    no_estimate: Annotated[
        bool, typer.Option("--no-estimate", help="Do not measure how long it will take.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be run, and how long it takes.")
    ] = False,
    document: Annotated[
        Path | None, typer.Option(help="Of 'tables': a document whose tables are made again.")
    ] = None,
    format: Annotated[
        str, typer.Option(help="What is printed: terminal, markdown, csv or latex.")
    ] = "terminal",
    device: Device = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make a table or a figure of the paper; run again, it goes on where it stopped."""
    from edgeformers.data.graph import EdgeTextGraph
    from edgeformers.experiments.plan import ExperimentOptions
    from edgeformers.experiments.render import render
    from edgeformers.experiments.reproduce import reproduce

    render([], format)  # an unknown one is refused before hours of work
    if what == TABLES:
        _rebuild(folders or [], document, format, as_json)
        return
    if folders or document is not None:
        raise InputError(f"folders and --document are for 'tables', not for '{what}'")
    if data is None:
        raise InputError(f"name the network: edgeformers reproduce {what} --data NETWORK")
    settings = dict(map(parse_setting, set_ or ()))
    settings |= {} if backbone is None else {"model.backbone": backbone}
    found = reproduce(
        what,
        EdgeTextGraph.open(data),
        out,
        ExperimentOptions(
            recipe=recipe,
            seeds=seeds,
            settings=settings,
            published=published,
            device=device,
            keep_models=not drop_models,
            models=_words(models),
            values=_numbers(values),
            labels=labels,
            tune=tune,
            jobs=jobs,
            rounds=rounds,
            dry_run=dry_run,
            estimate=not no_estimate,
        ),
        say=_silent if as_json or quiet else say if dry_run else _aside,
        show=not quiet and not as_json,
    )
    _tell([found], format, as_json)


def _rebuild(folders: Sequence[Path], document: Path | None, format: str, as_json: bool) -> None:
    from edgeformers.experiments.documents import update_document
    from edgeformers.experiments.reproduce import rebuild_tables

    if not folders and document is None:
        raise InputError("name the folders of experiments, or a document: reproduce tables FOLDER")
    found = [one for folder in folders for one in rebuild_tables(folder)]
    if found or as_json:
        _tell(found, format, as_json)
    if document is not None and not as_json:
        changed = update_document(document, Path.cwd())
        say(f"{document} {'has new tables' if changed else 'is as its records say'}")


def _tell(found: Sequence[Any], format: str, as_json: bool) -> None:
    """The tables, what the paper claims of them, and what failed; code 1 where something did."""
    from edgeformers.experiments.render import render
    from edgeformers.experiments.reproduce import to_json

    if as_json:
        say_json([to_json(one) for one in found])
    else:
        for one in found:
            _tell_one(one, render(one.tables, format))
    if any(one.failures for one in found):
        raise typer.Exit(1)


def _tell_one(one: Any, tables: str) -> None:
    from edgeformers.experiments.claims import claim_lines

    if tables:
        say(tables.rstrip("\n"))
    for line in (*claim_lines(one.checked), *one.notes):
        typer.echo(line, err=True)
    if one.files:
        typer.echo(f"Written: {', '.join(str(path) for path in one.files)}", err=True)
    for failure in one.failures:
        typer.echo(f"failed: {failure}", err=True)


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


def _numbers(text: str | None) -> list[int] | None:
    try:
        return None if text is None else [int(word) for word in text.split(",")]
    except ValueError:
        raise InputError(f"--values are whole numbers: 2,4,8 (got '{text}')") from None


def _aside(line: str) -> None:
    """LinkEnsemble the answer, which alone is on stdout."""
    typer.echo(line, err=True)


def _silent(line: str) -> None:
    """Say nothing: the answer alone is wanted."""
