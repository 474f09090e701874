"""Reproduces a table or figure of the paper: plans runs, executes them, and writes the results."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgeformers.baselines.collaborative.reciprocity import can_reciprocate
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.splits import NO_TIME, PROFILE
from edgeformers.errors import InputError, suggest
from edgeformers.evaluation.rolling import RollingLinks
from edgeformers.experiments.claims import CheckedClaim, check_claims
from edgeformers.experiments.claims_table import (
    claim_values,
    claims_markdown,
    claims_table,
    network_claims,
)
from edgeformers.experiments.collect import collect_results
from edgeformers.experiments.efficiency import time_models
from edgeformers.experiments.figures import FIGURE_KINDS, measure_model, write_figures
from edgeformers.experiments.model_rows import (
    CHRONOLOGICAL_SPLIT,
    COLD_SPLIT,
    DIMENSIONS,
    EDGE_ROWS,
    LINK_ROWS,
    NEIGHBORS,
    NODE_ROWS,
    RECIPROCITY_ROWS,
    ROLLING_SPLIT,
    ROWS,
    SHIPPED_EDGE_ROWS,
    SHIPPED_LINK_ROWS,
    TEMPORAL_ROWS,
    TEXT_GRAPH_ROWS,
    TIMED_ROWS,
    ModelRow,
    ablation_rows,
    all_link_rows,
    choose_rows,
    dimension_rows,
    neighbor_rows,
    split_rows,
)
from edgeformers.experiments.node_classification import classify_all, find_labels
from edgeformers.experiments.plan import (
    NEED_MODELS,
    ExperimentOptions,
    Plan,
    find_plans,
    make_plan,
)
from edgeformers.experiments.record import RECORD, Record
from edgeformers.experiments.render import to_csv, to_latex, to_markdown, to_text
from edgeformers.experiments.resources import default_jobs, estimate_time
from edgeformers.experiments.runner import execute
from edgeformers.experiments.tables import ResultTable, make_tables
from edgeformers.experiments.tune import trial_plan, tuned_plan
from edgeformers.files import write_atomic
from edgeformers.inference.node_classification import LabeledNodes
from edgeformers.locks import single_writer
from edgeformers.report.formatting import format_duration, format_table

#: The experiments, and the table or figure of the paper that each reproduces.
EXPERIMENTS: Mapping[str, str] = {
    "edge-classification": "Tables 1 and 7",
    "link-prediction": "Tables 2 and 8",
    "as-shipped": "not in the paper",
    "cold-start": "not in the paper",
    "chronological": "not in the paper",
    "rolling": "not in the paper",
    "ablation": "Table 3",
    "node-classification": "Table 4",
    "efficiency": "Table 5",
    "embedding-plot": "Figure 2",
    "node-dimension": "Figure 3",
    "neighbor-size": "Figure 4",
    "attention-map": "Figure 5",
}
#: Experiments that train on the past, and their default splits.
TIMED_SPLITS = {"chronological": CHRONOLOGICAL_SPLIT, "rolling": ROLLING_SPLIT}
SINGLE_SEED = ("efficiency", "embedding-plot", "attention-map")
STUDIES: Mapping[str, tuple[Callable[[Sequence[int]], tuple[ModelRow, ...]], tuple[int, ...]]] = {
    "node-dimension": (dimension_rows, DIMENSIONS),
    "neighbor-size": (neighbor_rows, NEIGHBORS),
}


@dataclass(frozen=True, kw_only=True)
class ExperimentResults:
    """The results of an experiment, and the files they were written to."""

    plan: Plan
    record: Record | None = None
    tables: list[ResultTable] = field(default_factory=list)
    checked: list[CheckedClaim] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Results as plain values."""
        return {
            "experiment": self.plan.experiment,
            "folder": str(self.plan.path),
            "runs": [
                {"row": run.row, "seed": run.seed, "finished": self.plan.is_done(run)}
                for run in self.plan.runs
            ],
            "files": [str(path) for path in self.files],
            "tables": {
                table.name: {
                    row.name: {metric: cell.value for metric, cell in row.cells.items()}
                    for row in table.rows
                }
                for table in self.tables
            },
            "claims": [claim_values(checked) for checked in self.checked],
            "failures": self.failures,
            "notes": self.notes,
        }


def experiment_rows(
    experiment: str, options: ExperimentOptions, *, reciprocal: bool = False, timed: bool = False
) -> tuple[ModelRow, ...]:
    """The rows of an experiment, or those of them that the options name.

    Some rows only make sense if nodes can link back (`reciprocal`) or edges have times (`timed`).
    """
    if experiment not in EXPERIMENTS:
        raise InputError(f"unknown experiment '{experiment}'; {suggest(experiment, EXPERIMENTS)}")
    if options.values is not None and experiment not in STUDIES:
        raise InputError(f"`values=` is for {' and '.join(STUDIES)}, not for {experiment}")
    if options.values is not None and min(options.values) < 1:
        raise InputError(f"`values=` must be at least 1 (got {min(options.values)})")
    if options.tune and experiment == "efficiency":
        raise InputError(
            "`tune=True` does not affect efficiency, which measures time; leave it out"
        )
    if experiment in STUDIES:
        make_rows, default_values = STUDIES[experiment]
        return choose_rows(make_rows(options.values or default_values), options.models)
    needs: dict[str, str] = {}  # of rows that the network cannot have
    if not timed:
        needs |= {row.name: "edges with times (`time=`)" for row in TEMPORAL_ROWS}
    if not reciprocal:
        needs |= {row.name: "directed edges and a single node type" for row in RECIPROCITY_ROWS}
    shipped = (*TEXT_GRAPH_ROWS, *SHIPPED_LINK_ROWS)
    rows: Mapping[str, Sequence[ModelRow]] = {
        "edge-classification": EDGE_ROWS,
        "link-prediction": LINK_ROWS,
        "as-shipped": (*SHIPPED_EDGE_ROWS, *RECIPROCITY_ROWS, *TEMPORAL_ROWS, *shipped),
        "cold-start": (*RECIPROCITY_ROWS, *all_link_rows()),
        "chronological": (*TEMPORAL_ROWS, *shipped),
        "rolling": (*TEMPORAL_ROWS, *TEXT_GRAPH_ROWS, *SHIPPED_LINK_ROWS[-2:]),
        "ablation": ablation_rows(),
        "node-classification": [ROWS[name] for name in NODE_ROWS],
        "efficiency": [ROWS[name] for name in TIMED_ROWS],
        "embedding-plot": [ROWS["edgeformer-n"]],
        "attention-map": [ROWS["edgeformer-e"]],
    }
    for row in rows[experiment]:
        if row.name in needs and row.name in (options.models or ()):
            raise InputError(
                f"the row '{row.name}' needs {needs[row.name]}, which the network does not have"
            )
    return choose_rows([row for row in rows[experiment] if row.name not in needs], options.models)


def reproduce(
    experiment: str,
    graph: EdgeTextGraph,
    out: Path,
    options: ExperimentOptions,
    *,
    log: Callable[[str], None] = lambda line: None,
    show: bool = True,
) -> ExperimentResults:
    """Run an experiment on a network, or resume it; `log` receives lines about the plan."""
    plan = _plan_experiment(experiment, graph, out, options)
    labels = find_labels(graph, options.labels) if experiment == "node-classification" else None
    trials = None
    if options.searches_rates and experiment != "efficiency":
        trials = trial_plan(plan, options.settings)
    seconds = _announce(plan, trials, graph, options, log)
    if options.dry_run:
        return ExperimentResults(plan=plan)
    with single_writer(plan.path, folder=True):
        return _execute(plan, trials, graph, options, labels, seconds=seconds, show=show)


def _execute(
    plan: Plan,
    trials: Plan | None,
    graph: EdgeTextGraph,
    options: ExperimentOptions,
    labels: LabeledNodes | None,
    *,
    seconds: Mapping[str, float],
    show: bool,
) -> ExperimentResults:
    """Execute the runs of a plan, after its tuning trials, and write the results."""
    if plan.experiment == "efficiency":
        plan.write()
        return write_outputs(plan, time_models(plan, graph, rounds=options.rounds))
    failures: list[str] = []
    if trials is not None:
        trials.write()
        jobs = _jobs(trials, graph, options)
        failures += execute(trials, jobs=jobs, show=show, seconds=seconds)
        plan = tuned_plan(plan, trials)
    plan.write()
    failures += execute(plan, jobs=_jobs(plan, graph, options), show=show, seconds=seconds)
    if labels is not None:
        record, node_failures = classify_all(plan, graph, labels)
        return write_outputs(plan, record, [*failures, *node_failures])
    record = measure_model(plan, graph, collect_results(plan), token=options.token)
    return write_outputs(plan, record, failures)


def rebuild_tables(folder: Path) -> list[ExperimentResults]:
    """Write the tables of all experiments in a folder again, without training anything."""
    results = []
    for plan in find_plans(folder):
        from_record = plan.experiment in ("node-classification", "efficiency", *FIGURE_KINDS)
        record = Record.read(plan.path / RECORD) if from_record else collect_results(plan)
        results.append(write_outputs(plan, record))
    return results


def write_outputs(plan: Plan, record: Record, failures: Sequence[str] = ()) -> ExperimentResults:
    """Write the record, its tables in every format, the claims and the figures."""
    tables, checked = make_tables(record), check_claims(record)
    record.write(plan.path / RECORD)
    texts = {
        "tables.md": "\n".join(filter(None, (to_markdown(tables), claims_markdown(checked)))),
        "tables.txt": to_text(tables),
        "tables.csv": to_csv(tables),
        "tables.tex": to_latex(tables),
    }
    for name, text in texts.items():
        (plan.path / name).unlink(missing_ok=True)  # of an earlier plan
        if tables:
            write_atomic(plan.path / name, text)
    files = [plan.path / name for name in (RECORD, *(texts if tables else ()))]
    files += write_claims(Path(plan.folder))
    figures, notes = write_figures(plan, record)
    return ExperimentResults(
        plan=plan,
        record=record,
        tables=tables,
        checked=checked,
        files=[*files, *figures],
        failures=list(failures),
        notes=notes,
    )


def write_claims(folder: Path) -> list[Path]:
    """Write one table of the paper's claims over all experiments in a folder."""
    records = [Record.read(path) for path in sorted(folder.glob(f"*/{RECORD}"))]
    claims = network_claims(records)
    first, names = records[0], ", ".join(record.experiment for record in records)
    title = (
        f"# The paper's claims on {first.network['name']}\n\nRecipe {first.recipe}, backbone "
        f"{first.backbone}, protocol paper. Measured: {names}.\n\n"
    )
    files = [folder / "claims.md", folder / "claims.json"]
    write_atomic(files[0], title + claims_table(claims))
    write_atomic(files[1], json.dumps([claim_values(one) for one in claims], indent=1) + "\n")
    return files


def _plan_experiment(
    experiment: str, graph: EdgeTextGraph, out: Path, options: ExperimentOptions
) -> Plan:
    if experiment in TIMED_SPLITS:
        _check_times(experiment, graph)
    rows = experiment_rows(
        experiment,
        options,
        reciprocal=can_reciprocate(graph),
        timed=graph.times is not None,
    )
    if experiment in SINGLE_SEED:
        options = replace(options, seeds=1)
    if experiment in NEED_MODELS:
        options = replace(options, keep_models=True)
    if experiment == "cold-start":
        rows, options = _use_cold_split(rows, graph, options)
    if experiment in TIMED_SPLITS:
        rows, options = _use_timed_split(experiment, rows, graph, options)
    plan = make_plan(experiment, rows, graph, out, options)
    if experiment != "efficiency" and not options.searches_rates:
        plan.check_folders()  # before anything is measured; timing uses none
    return plan


def _check_times(experiment: str, graph: EdgeTextGraph) -> None:
    times, count = graph.times, graph.num_edges
    if missing := count if times is None else int((times == NO_TIME).sum()):
        raise InputError(
            f"the experiment '{experiment}' needs a time for every edge, but there is none for "
            f"{missing:,} of {count:,} edges of {graph.path}; prepare the network with `time=`, a "
            "column without gaps"
        )


def _use_cold_split(
    rows: Sequence[ModelRow], graph: EdgeTextGraph, options: ExperimentOptions
) -> tuple[tuple[ModelRow, ...], ExperimentOptions]:
    """Rows on a split with held-out nodes: the user's, or the default one."""
    settings = dict(options.settings)
    split = str(settings.pop("data.split", COLD_SPLIT))
    if not (graph.split(split) == PROFILE).any():
        raise InputError(
            f"the split '{split}' holds out no nodes, as cold-start requires; use "
            "`data.split='cold-source'` or `data.split='cold-target'`"
        )
    return split_rows(rows, "cold", split), replace(options, settings=settings)


def _use_timed_split(
    experiment: str, rows: Sequence[ModelRow], graph: EdgeTextGraph, options: ExperimentOptions
) -> tuple[tuple[ModelRow, ...], ExperimentOptions]:
    """Rows that are trained on the past: on the user's split, or on the default one."""
    settings = dict(options.settings)
    split = str(settings.pop("data.split", TIMED_SPLITS[experiment]))
    RollingLinks(graph, split)  # raises unless validation and test come after training
    return split_rows(rows, experiment, split), replace(options, settings=settings)


def _announce(
    plan: Plan,
    trials: Plan | None,
    graph: EdgeTextGraph,
    options: ExperimentOptions,
    log: Callable[[str], None],
) -> Mapping[str, float]:
    """Log the plan and return the expected seconds per run of each row."""
    log(f"{plan.experiment} ({EXPERIMENTS[plan.experiment]}) on {graph!r}, recipe {plan.recipe}:")
    lines = [["row", "model", "seeds", "finished"]]
    for name in dict.fromkeys(run.row for run in plan.runs):
        runs = [run for run in plan.runs if run.row == name]
        done = f"{sum(map(plan.is_done, runs))} of {len(runs)}"
        lines.append([name, runs[0].model, ", ".join(str(run.seed) for run in runs), done])
    log("\n".join(format_table(lines, left=(0, 1, 2))))
    for reason in plan.left_out:
        log(f"Left out: {reason}")
    retrained = [f"{run.row}, seed {run.seed}" for run in plan.pending if run.is_finished]
    if retrained:
        log(f"Trained again because their models were not kept: {'; '.join(retrained)}.")
    if trials is not None:
        log(f"First, {len(trials.runs)} tuning trials on validation.")
    if plan.experiment == "efficiency" or not options.estimate:
        return {}
    jobs, estimate = _jobs(plan, graph, options), estimate_time(plan, graph)
    if plan.pending:
        log(estimate.describe(jobs))
    if trials is not None and estimate.per_run:
        seconds = sum(estimate.per_run.get(run.row, 0.0) for run in trials.pending)
        log(f"Tuning takes another {format_duration(seconds / jobs)}.")
    return estimate.per_run


def _jobs(plan: Plan, graph: EdgeTextGraph, options: ExperimentOptions) -> int:
    return default_jobs(plan, graph) if options.jobs is None else options.jobs
