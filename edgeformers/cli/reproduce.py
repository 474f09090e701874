"""The command `reproduce`: a table or figure of the paper on any network."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import typer

from edgeformers.cli.command import OUT, TrainingCommand, argument, echo, option, split_list
from edgeformers.errors import InputError

if TYPE_CHECKING:
    from edgeformers.experiments.plan import ExperimentOptions
    from edgeformers.experiments.reproduce import ExperimentResults

TABLES = "tables"


@dataclass(frozen=True, kw_only=True)
class Reproduce(TrainingCommand):
    """Reproduce a table or figure of the paper.

    After an interruption, the same command continues where it stopped.
    """

    EXAMPLES = """\b
Examples:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers reproduce edge-classification --data network -o paper --recipe fast --dry-run
  edgeformers reproduce edge-classification --data network -o paper --recipe fast --seeds 2 --models tfidf,edgeformer-e
  edgeformers reproduce tables paper --format latex

\b
On a dataset of the paper, with its settings, next to its numbers:
  edgeformers prepare amazon-apps reviews_Apps_for_Android_5.json.gz -o apps
  edgeformers reproduce link-prediction --data apps -o paper-apps --recipe paper
"""  # noqa: E501

    what: str = argument(
        "edge-classification, link-prediction, as-shipped, cold-start, chronological, "
        "rolling, ablation, node-classification, efficiency, embedding-plot, node-dimension, "
        "neighbor-size or attention-map; or tables, to make the tables of finished runs again."
    )
    folders: list[Path] | None = argument("For tables, folders of experiments.", None)
    data: Path | None = option("A prepared network.")
    out: Path = option("Folder of all runs and tables.", Path("reproduced"), names=OUT)
    seeds: int = option("Runs per row.", 3)
    models: list[str] | None = option("Rows to run: bert,edgeformer-e. Repeatable.", metavar="ROWS")
    tune: bool = option("First search learning rates on validation; paper-tuned does.", False)
    values: str | None = option("For node-dimension and neighbor-size, values to compare: 2,4,8.")
    labels: Path | None = option("For node-classification, a table with columns node and label.")
    rounds: int = option("For efficiency, batches to time.", 20)
    token: str = option("For attention-map, whose attention: text (a random token) or cls.", "text")
    published: str | None = option("Dataset of the paper whose numbers are shown next to ours.")
    jobs: int | None = option("Parallel runs. [default: 1 on a CPU, as many as fit on a GPU]")
    drop_models: bool = option("Delete each model after evaluation.", False)
    no_estimate: bool = option("Do not estimate the duration.", False)
    dry_run: bool = option("Print the planned runs and their duration.", False)
    document: Path | None = option("For tables, a Markdown document to update.")
    format: str = option("Printed format: terminal, markdown, csv or latex.", "terminal")

    def run(self) -> None:
        from edgeformers.data.graph import EdgeTextGraph
        from edgeformers.experiments.render import render
        from edgeformers.experiments.reproduce import reproduce

        render([], self.format)  # refuse an unknown format before hours of work
        if self.what == TABLES:
            self._rebuild_tables(self.folders or [])
            return
        if self.folders or self.document is not None:
            raise InputError(f"folders and --document are for 'tables', not for '{self.what}'")
        if self.data is None:
            raise InputError(f"--data is missing: edgeformers reproduce {self.what} --data NETWORK")
        is_silent = self.as_json or self.quiet
        result = reproduce(
            self.what,
            EdgeTextGraph.open(self.data),
            self.out,
            self._experiment_options(),
            log=_ignore if is_silent else echo if self.dry_run else _echo_stderr,
            show=not is_silent,
        )
        self._print_results([result])

    def _experiment_options(self) -> "ExperimentOptions":
        from edgeformers.experiments.plan import ExperimentOptions

        return ExperimentOptions(
            recipe=self.recipe or "default",
            seeds=self.seeds,
            settings=self.settings(),
            published=self.published,
            device=self.device,
            keep_models=not self.drop_models,
            models=split_list(self.models),
            values=_integers(self.values),
            labels=self.labels,
            tune=self.tune,
            jobs=self.jobs,
            rounds=self.rounds,
            token=cast(Literal["text", "cls"], self.token),
            dry_run=self.dry_run,
            estimate=not self.no_estimate,
        )

    def _rebuild_tables(self, folders: Sequence[Path]) -> None:
        from edgeformers.experiments.documents import update_document
        from edgeformers.experiments.reproduce import rebuild_tables

        if not folders and self.document is None:
            raise InputError("give folders of experiments, or --document: reproduce tables FOLDER")
        results = [result for folder in folders for result in rebuild_tables(folder)]
        if results or self.as_json:
            self._print_results(results)
        if self.document is not None and not self.as_json:
            changed = update_document(self.document, Path.cwd())
            echo(f"{self.document} {'has new tables' if changed else 'is up to date'}")

    def _print_results(self, results: "Sequence[ExperimentResults]") -> None:
        """Print tables on stdout and the rest on stderr; exit with code 1 if a run failed."""
        from edgeformers.experiments.claims_table import claim_lines
        from edgeformers.experiments.render import render

        tables = [render(result.tables, self.format).rstrip("\n") for result in results]
        if self.as_json or any(tables):
            self.print([result.to_json() for result in results], *filter(None, tables))
        for result in () if self.as_json else results:
            for line in (*claim_lines(result.checked), *result.notes):
                _echo_stderr(line)
            if result.files:
                _echo_stderr(f"Written: {', '.join(str(path) for path in result.files)}")
            for failure in result.failures:
                _echo_stderr(f"failed: {failure}")
        if any(result.failures for result in results):
            raise typer.Exit(1)


def _integers(text: str | None) -> list[int] | None:
    try:
        return None if text is None else [int(word) for word in text.split(",")]
    except ValueError:
        raise InputError(f"--values must be integers: 2,4,8 (got '{text}')") from None


def _echo_stderr(line: str) -> None:
    typer.echo(line, err=True)


def _ignore(line: str) -> None:
    """Print nothing."""
