"""A plan: every run that an experiment needs, each with its folder; nothing is trained here."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from edgeformers.aliases import current_experiment
from edgeformers.config import RunConfig, Task, make_config
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.errors import FormatError, InputError
from edgeformers.estimators import run_config
from edgeformers.experiments.model_rows import ROWS, ModelRow
from edgeformers.experiments.published import published_dataset
from edgeformers.files import write_atomic
from edgeformers.runs import MODEL, RESULTS, network_fingerprint

PLAN = "plan.json"
VERSION = 1
SPLITS: Mapping[Task, str] = {"edge-classification": "edge", "link-prediction": "link"}
NEED_MODELS = ("node-classification", "embedding-plot", "attention-map")  # after they are scored
Kind = Literal["model", "simple", "trial"]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One model trained once: a row, a seed, all settings, and the folder it is for."""

    row: str
    title: str
    group: str
    model: str
    kind: Kind
    task: Task
    seed: int
    folder: str
    config: dict[str, Any]  # of a RunConfig; of a simple baseline only its split counts
    settings: dict[str, Any] = field(default_factory=dict)  # those that differ from the recipe's

    @property
    def path(self) -> Path:
        return Path(self.folder)

    @property
    def is_finished(self) -> bool:
        return (self.path / RESULTS).is_file()

    @property
    def log(self) -> Path:
        """Where a process of its own writes what it says."""
        return self.path.with_name(f"{self.path.name}.log")

    @property
    def failure(self) -> Path:
        """Why it failed, where it did."""
        return self.path.with_name(f"{self.path.name}.failed")

    def to_config(self) -> RunConfig:
        return RunConfig.from_dict(self.config)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The runs of an experiment on a network, as they are written to plan.json."""

    experiment: str
    network: str
    fingerprint: str
    network_info: dict[str, Any]  # name, origin and counts
    dataset: str | None  # of the paper, whose numbers stand beside ours
    recipe: str
    backbone: str
    folder: str
    runs: list[Run]
    left_out: list[str] = field(default_factory=list)  # what could not be planned, and why
    device: str | None = None
    keep_models: bool = True
    is_tuned: bool = False
    version: int = VERSION

    @property
    def path(self) -> Path:
        return Path(self.folder) / self.experiment

    @property
    def waiting(self) -> list[Run]:
        return [run for run in self.runs if not self.is_done(run)]

    def is_done(self, run: Run) -> bool:
        """Whether a run is finished, and its model there if this experiment looks into models.

        What was seen in a model is kept (`seen`), and then the model is no longer needed.
        """
        looks_into = self.experiment in NEED_MODELS and run.kind == "model"
        is_there = (run.path / MODEL).is_dir() or self.seen(run).is_file()
        return run.is_finished and (not looks_into or is_there)

    def seen(self, run: Run) -> Path:
        """The file for what node classification finds in a run's model."""
        return self.path / "nodes" / f"{run.row}-{run.seed}.json"

    def write(self) -> Path:
        """plan.json in the experiment's folder."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomic(self.path / PLAN, json.dumps(asdict(self), indent=1) + "\n")
        return self.path / PLAN

    @classmethod
    def read(cls, path: Path) -> "Plan":
        """The plan that `write` wrote; its folder is where it is found now."""
        try:
            values = current_experiment(json.loads(path.read_text(encoding="utf-8")))
            if values.get("version") != VERSION:
                raise FormatError(f"{path}: version {VERSION} expected; run the experiment again")
            before = Path(values["folder"])
            here = path.resolve().parents[len(Path(values["experiment"]).parts)]
            runs = [Run(**run) for run in values.pop("runs")]
            moved = [_moved(run, before, here) for run in runs]
            return cls(**{**values, "folder": str(here)}, runs=moved)
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(
                f"{path} is no plan of an experiment ({error}); run the experiment again"
            ) from error


@dataclass(frozen=True, kw_only=True)
class ExperimentOptions:
    """User-facing options of an experiment: what to train, and how to run it."""

    recipe: str = "default"
    seeds: int = 3
    settings: Mapping[str, Any] = field(default_factory=dict)
    published: str | None = None
    device: str | None = None
    keep_models: bool = True
    models: Sequence[str] | None = None  # rows to run; None: all of the experiment's rows
    values: Sequence[int] | None = None  # values of the setting that a study varies
    labels: Path | None = None  # a table of node labels, for node classification
    tune: bool = False
    jobs: int | None = None  # parallel runs; None: as many as fit
    rounds: int = 20  # mini-batches timed by the efficiency experiment
    dry_run: bool = False
    estimate: bool = True

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise InputError(f"--seeds must be at least 1 (got {self.seeds})")


def make_plan(
    experiment: str,
    rows: Sequence[ModelRow],
    graph: EdgeTextGraph,
    out: Path,
    options: ExperimentOptions,
) -> Plan:
    """Every row with every seed; tasks that the network has nothing for are left out, and said."""
    folder = out.expanduser().resolve()
    possible, left_out = _possible(rows, graph, options)
    runs = [run for row in possible for run in _runs(row, graph, folder, options)]
    if not runs:
        raise InputError("; ".join(left_out) or f"no model for {experiment} is installed")
    configs = [run.to_config() for run in runs]
    return Plan(
        experiment=experiment,
        network=str(graph.path.resolve()),
        fingerprint=network_fingerprint(graph),
        network_info=describe_network(graph),
        dataset=published_dataset(graph, options.published),
        recipe=options.recipe,
        backbone=configs[0].model.backbone,
        folder=str(folder),
        runs=runs,
        left_out=left_out,
        device=options.device,
        keep_models=options.keep_models,
    )


def row_config(row: ModelRow, graph: EdgeTextGraph, options: ExperimentOptions) -> RunConfig:
    """The recipe, what the model wants of its own, what the user set, and what the row is."""
    given: dict[str, Any] = {}
    if options.recipe == "paper" and row.task == "link-prediction":
        given |= published_neighbors(graph)
    given |= {**options.settings, **row.settings}
    if row.is_simple:
        return make_config(row.task, options.recipe, settings=given)
    return run_config(row.task, options.recipe, settings={**given, "model.name": row.model})


def published_neighbors(graph: EdgeTextGraph) -> dict[str, Any]:
    """How many edges the paper samples around a node of this dataset, where it is one of its."""
    sizes = graph.meta.neighbors
    if not sizes:
        return {}
    given: dict[str, Any] = {f"data.{side}_neighbors": sizes[side] for side in ("source", "target")}
    return given | {"data.strata": "positive" if len(sizes["source"]) == 2 else "none"}


def describe_network(graph: EdgeTextGraph) -> dict[str, Any]:
    """What a record says of the data: no more than its name, origin and counts."""
    counts = {"nodes": graph.num_nodes, "edges": graph.num_edges}
    return {"name": graph.name, "origin": Path(graph.origin).name or graph.origin, **counts}


def with_settings(runs: Iterable[Run], settings: Mapping[str, Mapping[str, Any]]) -> list[Run]:
    """Runs of which some rows have other settings by now: those that tuning chose."""
    return [_changed(run, settings.get(run.row, {})) for run in runs]


def _changed(run: Run, settings: Mapping[str, Any]) -> Run:
    if not settings:
        return run
    config = run.to_config().with_settings(settings)
    return replace(run, config=config.to_dict(), settings={**run.settings, **settings})


def _runs(
    row: ModelRow, graph: EdgeTextGraph, folder: Path, options: ExperimentOptions
) -> Iterator[Run]:
    """A run per seed; a simple baseline that is not random is fitted once."""
    config = row_config(row, graph, options)
    plain = row_config(ROWS.get(row.model, row), graph, options)
    name = row.model if config == plain else row.name  # a variant that is none shares the folder
    count = 1 if row.is_simple and not row.is_random else options.seeds
    first = config.train.seed
    for seed in range(first, first + count):
        made = config.with_settings({"train.seed": seed})
        yield Run(
            row=row.name,
            title=row.title,
            group=row.group,
            model=row.model,
            kind="simple" if row.is_simple else "model",
            task=row.task,
            seed=seed,
            folder=str(folder / "runs" / name / str(seed)),
            config=made.to_dict(),
            settings=_differing(made, options.recipe),
        )


def _differing(config: RunConfig, recipe: str) -> dict[str, Any]:
    """Settings that the recipe has otherwise, the seed and the model's name aside."""
    mine, theirs = config.to_dict(), make_config(config.task, recipe).to_dict()
    found = {}
    for section, values in mine.items():
        for name, value in values.items() if isinstance(values, dict) else ():
            if value != theirs[section][name]:
                found[f"{section}.{name}"] = value
    return {name: v for name, v in found.items() if name not in ("train.seed", "model.name")}


def _possible(
    rows: Sequence[ModelRow], graph: EdgeTextGraph, options: ExperimentOptions
) -> tuple[list[ModelRow], list[str]]:
    """Rows whose task the network can be used for, and a sentence for each task it cannot."""
    left_out = {}
    if graph.labels is None:
        left_out["edge-classification"] = f"{graph.path} has no edge labels: nothing to classify"
    for row in rows:
        given = {**options.settings, **row.settings}.get("data.split")
        named = str(given or SPLITS[row.task])
        if not graph.has_split(named) and (given or len(graph.splits) != 1):
            left_out.setdefault(row.task, f"{graph.path} has no split '{named}' for {row.task}")
    kept = [row for row in rows if row.task not in left_out]
    wanted = {row.task for row in rows}
    return kept, [why for task, why in left_out.items() if task in wanted]


def _moved(run: Run, before: Path, here: Path) -> Run:
    return replace(run, folder=str(here / run.path.relative_to(before)))
