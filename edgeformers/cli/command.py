"""Commands as dataclasses: fields are arguments and options, the docstring is the help.

Commands import the library when they run, so that `edgeformers --help` is fast.
"""

import inspect
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_type_hints

import typer
from typer.core import TyperCommand
from typer.models import ArgumentInfo

from edgeformers.config import RECIPES, parse_setting
from edgeformers.errors import InputError, suggest
from edgeformers.files import json_values

if TYPE_CHECKING:
    from edgeformers.inference.fitted_edges import FittedEdgeClassifier
    from edgeformers.inference.fitted_links import FittedLinkPredictor

ALL_EDGES = (
    "Also read the validation and test edges, so that recommendations reflect the latest edges."
)
ENGINE = "local, or ray: compute on a Ray cluster."
OUT = ("--out", "-o")


def argument(help: str, default: Any = ..., *, metavar: str | None = None) -> Any:
    """A field that is a positional argument; `...` as default: required."""
    return _field(typer.Argument(help=help, metavar=metavar), default)


def option(
    help: str,
    default: Any = None,
    *,
    names: Sequence[str] = (),
    metavar: str | None = None,
    panel: str | None = None,
) -> Any:
    """A field that is an option; options of a panel have a section of their own in the help."""
    return _field(typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel), default)


def _field(info: Any, default: Any) -> Any:
    return field(default=MISSING if default is ... else default, metadata={"info": info})


@dataclass(frozen=True, kw_only=True)
class Command(ABC):
    """A command of the program."""

    EXAMPLES: ClassVar[str]

    as_json: bool = option("Print the result as JSON.", False, names=["--json"])

    @abstractmethod
    def run(self) -> None:
        """Execute the command."""

    def print(self, values: Any, *lines: str) -> None:
        """Print values as JSON if wanted, otherwise lines."""
        if self.as_json:
            echo(json.dumps(json_values(values), ensure_ascii=False, indent=1))
        else:
            echo("\n".join(lines))


@dataclass(frozen=True, kw_only=True)
class LongCommand(Command):
    """A command that shows its progress and may use a GPU."""

    device: str | None = option("cpu or cuda. [default: a GPU if available]")
    quiet: bool = option("Hide progress bars.", False)


@dataclass(frozen=True, kw_only=True)
class RunCommand(LongCommand):
    """A command that uses a trained run."""

    folder: Path = argument("Folder of a trained run.", metavar="RUN")
    network: Path | None = option("The network, if it has moved since training.")

    def open(self) -> "FittedEdgeClassifier | FittedLinkPredictor":
        """Load the run's model and its network, without importing what trains."""
        from edgeformers.inference.load import load_fitted

        leave_pandas_out()
        show = not self.quiet
        fitted = load_fitted(self.folder, network=self.network, device=self.device, show=show)
        _ = fitted.network  # raises if it cannot be found
        return fitted


@dataclass(frozen=True, kw_only=True)
class TrainingCommand(LongCommand):
    """A command that trains models with a recipe and changes to it."""

    recipe: str | None = option(f"Settings to start from: {', '.join(RECIPES)}. [default: default]")
    backbone: str | None = option(
        "Language model: minilm, a folder, a Hub name, or scratch:2x64 (untrained)."
    )
    assignments: list[str] | None = option(
        "Change a setting: train.lr=3e-5. Repeatable.", names=["--set"], metavar="NAME=VALUE"
    )

    def settings(self) -> dict[str, Any]:
        """The changed settings by dotted name."""
        settings = dict(map(parse_setting, self.assignments or ()))
        return settings if self.backbone is None else {**settings, "model.backbone": self.backbone}


def leave_pandas_out() -> None:
    """Keep Arrow from importing pandas, which takes a third of a second and no command needs.

    It looks for pandas when it first converts values, and does not look again.
    """
    import pyarrow as pa

    class NoPandas:
        def find_spec(self, name: str, *args: Any) -> None:
            if name == "pandas":
                raise ImportError(name)

    finder = NoPandas()
    sys.meta_path.insert(0, finder)
    pa.array([0])
    sys.meta_path.remove(finder)


def echo(text: str = "") -> None:
    """Print on stdout, from the main process only."""
    from edgeformers import distributed

    if distributed.is_main():
        typer.echo(text)


def choose(name: str, value: str, choices: Iterable[Any]) -> Any:
    """The choice that equals `value`; other values are refused."""
    known = list(choices)
    if value not in known:
        raise InputError(f"unknown {name} '{value}'; {suggest(value, known)}")
    return known[known.index(value)]


def split_list(texts: Sequence[str] | None) -> list[str] | None:
    """The words of a repeatable, comma-separated option; None if it was not given."""
    if not texts:
        return None
    return [word.strip() for text in texts for word in text.split(",") if word.strip()]


def add_command(app: typer.Typer, name: str, command: type[Command]) -> None:
    """Add a command to the program under a name."""

    def execute(**values: Any) -> None:
        command(**values).run()

    parameters = list(_parameters(command))
    execute.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    execute.__annotations__ = {each.name: each.annotation for each in parameters}
    app.command(name, cls=SectionedCommand, help=inspect.getdoc(command), epilog=command.EXAMPLES)(
        execute
    )


def _parameters(command: type[Command]) -> Iterator[inspect.Parameter]:
    """Arguments, then options; a command's own options come before those of its bases."""
    hints, known = get_type_hints(command), {each.name: each for each in fields(command)}
    arguments = [name for name in known if isinstance(known[name].metadata["info"], ArgumentInfo)]
    ordered = [name for base in command.__mro__ for name in inspect.get_annotations(base)]
    for name in dict.fromkeys([*arguments, *(name for name in ordered if name in known)]):
        info, default = known[name].metadata["info"], known[name].default
        if hints[name] is bool and info.default is ...:  # a flag without a --no-... variant
            info.default = f"--{name.replace('_', '-')}"
        yield inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if default is MISSING else default,
            annotation=Annotated[hints[name], info],
        )


class SectionedCommand(TyperCommand):
    """A command whose plain help lists the options of each panel in a section of its own."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                is_argument = param.param_type_name == "argument"
                panel = getattr(param, "rich_help_panel", None) or "Options"
                sections.setdefault("Arguments" if is_argument else panel, []).append(record)
        for title in sorted(sections, key=lambda title: title == "Options"):
            with formatter.section(title):
                formatter.write_dl(sections[title])
