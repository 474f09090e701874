"""Experiment plans: every run of an experiment with its settings and folder, before training."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from edgeformers import aliases
from edgeformers.baselines.registry import BACKBONE_BASELINES
from edgeformers.config import RunConfig, Task, flatten, make_config, matches_file
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.decode import decode_json
from edgeformers.errors import InputError
from edgeformers.estimators import run_config
from edgeformers.experiments.model_rows import ROWS, ModelRow
from edgeformers.experiments.published import named_dataset, published_dataset
from edgeformers.files import write_atomic
from edgeformers.inference.encode import choose_device
from edgeformers.inference.fitted import choose_split, network_fingerprint
from edgeformers.inference.model_card import RESULTS
from edgeformers.inference.saved_model import MODEL
from edgeformers.training.initialization import is_scratch
from edgeformers.training.run_folder import CONFIG, is_claimed, read_run_record

PLAN = "plan.json"
VERSION = aliases.RECORD_VERSION
NEED_MODELS = ("node-classification", "embedding-plot", "attention-map")  # after scoring
RunKind = Literal["model", "simple", "trial"]


@dataclass(frozen=True, kw_only=True)
class ExperimentOptions:
    """User-facing options of an experiment: what to train, and how to run it."""

    recipe: str = "default"
    seeds: int = 3
    settings: Mapping[str, Any] = field(default_factory=dict)
    published: str | None = None  # the paper's dataset whose numbers are shown next to ours
    device: str | None = None
    keep_models: bool = True
    models: Sequence[str] | None = None  # rows to run; None: all of the experiment's rows
    values: Sequence[int] | None = None  # values of the setting that a study varies
    labels: Path | None = None  # a table of node labels, for node classification
    tune: bool = False
    jobs: int | None = None  # parallel runs; None: as many as fit
    rounds: int = 20  # mini-batches timed by the efficiency experiment
    token: Literal["text", "cls"] = "text"  # whose attention is shown: a random text token, [CLS]
    dry_run: bool = False
    estimate: bool = True

    @property
    def searches_rates(self) -> bool:
        """Whether learning rates are searched on validation first."""
        return self.tune or self.recipe == "paper-tuned"

    def __post_init__(self) -> None:
        for name in ("seeds", "jobs", "rounds"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"`{name}=` must be at least 1 (got {value})")
        if self.token not in ("text", "cls"):
            raise InputError(f"`token=` must be text or cls (got '{self.token}')")


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """One run of an experiment: a table row, a seed, all settings, and the run folder."""

    row: str
    title: str
    group: str
    model: str
    kind: RunKind
    task: Task
    seed: int
    folder: str
    config: dict[str, Any]  # of a RunConfig; a simple baseline only uses its split and text reader
    settings: dict[str, Any] = field(default_factory=dict)  # those that differ from the recipe

    @property
    def path(self) -> Path:
        return Path(self.folder)

    @property
    def is_finished(self) -> bool:
        return (self.path / RESULTS).is_file()

    @property
    def log(self) -> Path:
        """The output of a run in a separate process, and tracebacks."""
        return self.path.with_name(f"{self.path.name}.log")

    @property
    def failure(self) -> Path:
        """The error message of a failed run."""
        return self.path.with_name(f"{self.path.name}.failed")

    def to_config(self) -> RunConfig:
        return RunConfig.from_dict(self.config)

    def with_settings(self, settings: Mapping[str, Any]) -> "PlannedRun":
        """A copy with settings changed by dotted name."""
        config = self.to_config().with_settings(settings)
        return replace(self, config=config.to_dict(), settings={**self.settings, **settings})

    def reader_options(self) -> dict[str, Any]:
        """How a baseline on frozen text encodes texts: like the other rows of its table.

        An untrained backbone carries no information, so the baseline's default is used instead.
        """
        if self.model not in BACKBONE_BASELINES:
            return {}
        config = self.to_config()
        backbone = config.model.backbone
        options: dict[str, Any] = {} if is_scratch(backbone) else {"backbone": backbone}
        return options | {"max_tokens": config.data.max_tokens}

    def baseline_info(self, fingerprint: str) -> dict[str, Any]:
        """What run.json says about a simple baseline's folder."""
        info = {"task": self.task, "model": self.model, "split": self.to_config().data.split}
        return {**info, "network_fingerprint": fingerprint, **self.reader_options()}

    def owns_folder(self, fingerprint: str) -> bool:
        """Whether the run folder is new, or has these settings and this network."""
        if not is_claimed(self.path):
            return True
        written, config = read_run_record(self.path), self.path / CONFIG
        if self.kind == "simple":
            return written in ({}, self.baseline_info(fingerprint))
        if written and written.get("network_fingerprint") != fingerprint:
            return False
        return not config.is_file() or matches_file(config, self.to_config())


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The runs of an experiment on a network, saved as plan.json."""

    experiment: str
    network: str
    fingerprint: str
    network_info: dict[str, Any]  # name, origin and counts
    dataset: str | None  # of the paper, if the network has its counts: for published numbers
    recipe: str
    backbone: str
    folder: str
    runs: list[PlannedRun]
    left_out: list[str] = field(default_factory=list)  # what could not be planned, and why
    reference: str | None = None  # dataset of the paper whose leads are noted
    device: str | None = None
    keep_models: bool = True
    is_tuned: bool = False
    version: int = VERSION

    @property
    def path(self) -> Path:
        return Path(self.folder) / self.experiment

    @property
    def pending(self) -> list[PlannedRun]:
        return [run for run in self.runs if not self.is_done(run)]

    def is_done(self, run: PlannedRun) -> bool:
        """Whether a run is finished and, if this experiment needs its model, has one.

        Node classification no longer needs a model once its metrics are saved.
        """
        needs_model = self.experiment in NEED_MODELS and run.kind == "model"
        has_model = (run.path / MODEL).is_dir() or self.node_metrics_file(run).is_file()
        return run.is_finished and (has_model or not needs_model)

    def node_metrics_file(self, run: PlannedRun) -> Path:
        """The file with a run's node classification metrics."""
        return self.path / "nodes" / f"{run.row}-{run.seed}.json"

    def failures(self) -> list[str]:
        """The error messages of runs whose last attempt failed."""
        return [
            f"{run.row}, seed {run.seed}: {run.failure.read_text(encoding='utf-8').strip()}"
            for run in self.pending
            if run.failure.is_file()
        ]

    def check_folders(self) -> None:
        """Refuse run folders that belong to other settings or to another network."""
        for run in self.runs:
            if not run.owns_folder(self.fingerprint):
                raise InputError(
                    f"{run.path} is a run with other settings or on another network; choose "
                    "another folder with -o, or remove it"
                )

    def write(self) -> Path:
        """Save as plan.json in the experiment's folder."""
        write_atomic(self.path / PLAN, json.dumps(asdict(self), indent=1) + "\n")
        return self.path / PLAN

    @classmethod
    def read(cls, path: Path) -> "Plan":
        """Load a saved plan; if the folder was moved, run folders follow."""
        plan = decode_json(
            cls,
            aliases.current_names(path.read_text(encoding="utf-8")),
            source=str(path),
            version=VERSION,
            remedy="run the experiment again",
        )
        folder = path.resolve().parents[len(Path(plan.experiment).parts)]
        runs = [
            replace(run, folder=str(folder / run.path.relative_to(plan.folder)))
            for run in plan.runs
        ]
        return replace(plan, folder=str(folder), runs=runs)


def find_plans(folder: Path) -> list[Plan]:
    """The plans of all experiments in a folder."""
    paths = sorted(folder.expanduser().glob(f"*/{PLAN}"))
    if not paths:
        raise InputError(
            f"{folder} contains no experiment; run one first: edgeformers reproduce "
            f"edge-classification --data NETWORK -o {folder}"
        )
    return [Plan.read(path) for path in paths]


def make_plan(
    experiment: str,
    rows: Sequence[ModelRow],
    graph: EdgeTextGraph,
    out: Path,
    options: ExperimentOptions,
) -> Plan:
    """Plan every row with every seed; tasks that the network does not support are left out."""
    folder = out.expanduser().resolve()
    left_out = _unsupported_tasks(rows, graph, options)
    supported = [row for row in rows if row.task not in left_out]
    runs = [run for row in supported for run in _planned_runs(row, graph, folder, options)]
    if not runs:
        raise InputError("; ".join(left_out.values()) or f"no model for {experiment} is installed")
    counts = {"nodes": graph.num_nodes, "edges": graph.num_edges}
    origin = Path(graph.origin).name or graph.origin
    return Plan(
        experiment=experiment,
        network=str(graph.path.resolve()),
        fingerprint=network_fingerprint(graph),
        network_info={"name": graph.name, "origin": origin, **counts},
        dataset=published_dataset(graph, options.published),
        recipe=options.recipe,
        backbone=runs[0].to_config().model.backbone,
        folder=str(folder),
        runs=runs,
        left_out=list(left_out.values()),
        reference=named_dataset(graph, options.published),
        device=options.device,
        keep_models=options.keep_models,
    )


def row_config(row: ModelRow, graph: EdgeTextGraph, options: ExperimentOptions) -> RunConfig:
    """The settings of a row: recipe, model defaults, user settings, and the row's own on top."""
    settings = {**options.settings, **row.settings}
    if row.is_simple:
        return make_config(row.task, options.recipe, settings=settings)
    settings = {"data.split": "", **settings, "model.name": row.model}  # "": as published
    device = choose_device(options.device)
    planned = device if device.type == "cuda" else None  # nothing is planned for a CPU
    return run_config(row.task, options.recipe, settings=settings, graph=graph, device=planned)


def _planned_runs(
    row: ModelRow, graph: EdgeTextGraph, folder: Path, options: ExperimentOptions
) -> Iterator[PlannedRun]:
    """One run per seed, or a single run of a deterministic baseline."""
    config = row_config(row, graph, options)
    base_config = row_config(ROWS.get(row.model, row), graph, options)
    # A variant with the same settings as the model itself shares the model's runs.
    name = row.model if config == base_config else row.name
    old_names = [old for old, new in aliases.ROWS.items() if new == name]
    name = next((old for old in old_names if (folder / "runs" / old).is_dir()), name)
    first_seed = config.train.seed
    for seed in range(first_seed, first_seed + (options.seeds if row.is_random else 1)):
        seeded = config.with_settings({"train.seed": seed})
        yield PlannedRun(
            row=row.name,
            title=row.title,
            group=row.group,
            model=row.model,
            kind="simple" if row.is_simple else "model",
            task=row.task,
            seed=seed,
            folder=str(folder / "runs" / name / str(seed)),
            config=seeded.to_dict(),
            settings=_changed_settings(seeded),
        )


def _changed_settings(config: RunConfig) -> dict[str, Any]:
    """Settings that differ from the recipe, except for the seed and the model name."""
    recipe = flatten(make_config(config.task, config.recipe).to_dict())
    return {
        name: value
        for name, value in flatten(config.to_dict()).items()
        if value != recipe[name] and name not in ("train.seed", "model.name")
    }


def _unsupported_tasks(
    rows: Sequence[ModelRow], graph: EdgeTextGraph, options: ExperimentOptions
) -> dict[Task, str]:
    """Tasks that the network has no labels or no split for, with the reason."""
    reasons: dict[Task, str] = {}
    for row in rows:
        split = choose_split(row_config(row, graph, options), graph)
        if row.task == "edge-classification" and graph.labels is None:
            reasons[row.task] = f"{graph.path} has no edge labels, so edges cannot be classified"
        elif not graph.has_split(split):
            reasons.setdefault(row.task, f"{graph.path} has no split '{split}' for {row.task}")
    return reasons
