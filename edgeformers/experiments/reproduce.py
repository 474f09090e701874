"""An experiment of the paper from start to end: plan, run, gather, write."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgeformers.baselines.collaborative.reciprocity import can_reciprocate
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.splits import PROFILE
from edgeformers.errors import InputError, suggest
from edgeformers.experiments.claims import Checked, check_claims, claims_text
from edgeformers.experiments.collect import collect_results, find_plans
from edgeformers.experiments.drawings import draw
from edgeformers.experiments.efficiency import time_models
from edgeformers.experiments.estimate import duration, estimate
from edgeformers.experiments.execute import Failure, execute
from edgeformers.experiments.folders import check_folders
from edgeformers.experiments.memory import default_jobs
from edgeformers.experiments.model_rows import (
    COLD_SPLIT,
    DIMENSIONS,
    EDGE_ROWS,
    LINK_ROWS,
    NEIGHBORS,
    NODE_ROWS,
    RETURN_ROWS,
    ROWS,
    TIMED_ROWS,
    ModelRow,
    ablation_rows,
    choose_rows,
    cold_rows,
    dimension_rows,
    neighbor_rows,
)
from edgeformers.experiments.node_classification import classify_all, find_labels
from edgeformers.experiments.plan import NEED_MODELS, ExperimentOptions, Plan, make_plan
from edgeformers.experiments.record import RECORD, Record
from edgeformers.experiments.render import to_csv, to_latex, to_markdown, to_terminal
from edgeformers.experiments.tables import Table, make_tables
from edgeformers.experiments.tune import trial_plan, tuned_plan
from edgeformers.files import write_atomic
from edgeformers.report.terminal import format_table

Say = Callable[[str], None]
#: The experiments, and which table or figure of the paper each makes.
EXPERIMENTS: Mapping[str, str] = {
    "edge-classification": "Tables 1 and 7",
    "link-prediction": "Tables 2 and 8",
    "cold-start": "not in the paper",
    "ablation": "Table 3",
    "node-classification": "Table 4",
    "efficiency": "Table 5",
    "embedding-plot": "Figure 2",
    "node-dimension": "Figure 3",
    "neighbor-size": "Figure 4",
    "attention-map": "Figure 5",
}
ONE_SEED = ("efficiency", "embedding-plot", "attention-map")
STUDIES: Mapping[str, tuple[Callable[[Sequence[int]], tuple[ModelRow, ...]], tuple[int, ...]]] = {
    "node-dimension": (dimension_rows, DIMENSIONS),
    "neighbor-size": (neighbor_rows, NEIGHBORS),
}


@dataclass(frozen=True, kw_only=True)
class Reproduced:
    """What an experiment gave."""

    plan: Plan
    record: Record | None = None
    tables: list[Table] = field(default_factory=list)
    checked: list[Checked] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def experiment_rows(
    experiment: str, options: ExperimentOptions, *, returns: bool = False
) -> tuple[ModelRow, ...]:
    """The rows an experiment has, those wanted, and of those the ones there are models for.

    Some rows are only for networks in which nodes can be linked back (`returns`).
    """
    links = (*RETURN_ROWS, *LINK_ROWS) if returns else LINK_ROWS
    rows: Mapping[str, tuple[ModelRow, ...]] = {
        "edge-classification": EDGE_ROWS,
        "link-prediction": links,
        "cold-start": links,
        "ablation": ablation_rows(),
        "node-classification": tuple(ROWS[name] for name in NODE_ROWS),
        "efficiency": tuple(ROWS[name] for name in TIMED_ROWS),
        "embedding-plot": (ROWS["edgeformer-n"],),
        "attention-map": (ROWS["edgeformer-e"],),
    }
    if experiment not in EXPERIMENTS:
        raise InputError(
            f"there is no experiment '{experiment}'; {suggest(experiment, EXPERIMENTS)}"
        )
    if options.values is not None and experiment not in STUDIES:
        raise InputError(f"--values is for {' and '.join(STUDIES)}, not for {experiment}")
    if options.values is not None and min(options.values) < 1:
        raise InputError(f"--values are 1 or more (got {min(options.values)})")
    if options.tune and experiment == "efficiency":
        raise InputError("--tune changes nothing that efficiency measures; leave it out")
    if experiment in STUDIES:
        make, usual = STUDIES[experiment]
        return choose_rows(make(options.values or usual), options.models)
    return choose_rows(rows[experiment], options.models)


def reproduce(
    experiment: str,
    graph: EdgeTextGraph,
    out: Path,
    options: ExperimentOptions,
    *,
    say: Say = lambda line: None,
    show: bool = True,
) -> Reproduced:
    """Make a table or a figure of the paper on a network; run again, it goes on."""
    rows = experiment_rows(experiment, options, returns=can_reciprocate(graph))
    if experiment in ONE_SEED:
        options = replace(options, seeds=1)
    if experiment in NEED_MODELS:
        options = replace(options, keep_models=True)
    if experiment == "cold-start":
        rows, options = _on_cold_split(rows, graph, options)
    plan = make_plan(experiment, rows, graph, out, options)
    if not options.tune:
        check_folders(plan)  # before anything is measured or promised
    labels = find_labels(graph, options.labels) if experiment == "node-classification" else None
    trials = trial_plan(plan, options.settings) if options.tune else None
    seconds = _announce(plan, trials, graph, options, say)
    if options.dry_run:
        return Reproduced(plan=plan)
    if experiment == "efficiency":
        plan.write()
        return write_outputs(plan, time_models(plan, graph, rounds=options.rounds))
    failures: list[Failure] = []
    if trials is not None:
        trials.write()
        jobs = _jobs(trials, graph, options)
        failures += execute(trials, jobs=jobs, show=show, seconds=seconds)
        plan = tuned_plan(plan, trials)
    plan.write()
    failures += execute(plan, jobs=_jobs(plan, graph, options), show=show, seconds=seconds)
    if labels is not None:
        record, lost = classify_all(plan, graph, labels)
        return write_outputs(plan, record, failures=[*failures, *lost])
    return write_outputs(plan, collect_results(plan), graph, failures)


def _on_cold_split(
    rows: Sequence[ModelRow], graph: EdgeTextGraph, options: ExperimentOptions
) -> tuple[tuple[ModelRow, ...], ExperimentOptions]:
    """Rows on a split with nodes held out: the user's own, or the usual one."""
    settings = dict(options.settings)
    split = str(settings.pop("data.split", COLD_SPLIT))
    if not (graph.split(split) == PROFILE).any():
        raise InputError(
            f"the split '{split}' holds no nodes out, of which cold-start asks; take "
            "--set data.split=cold-source or cold-target"
        )
    return cold_rows(rows, split), replace(options, settings=settings)


def rebuild_tables(folder: Path) -> list[Reproduced]:
    """Tables of all experiments in a folder, from what their runs left; nothing is trained."""
    found = []
    for plan in find_plans(folder):
        from_record = plan.experiment in ("node-classification", "efficiency")
        record = Record.read(plan.path / RECORD) if from_record else collect_results(plan)
        found.append(write_outputs(plan, record))
    return found


def write_outputs(
    plan: Plan,
    record: Record,
    graph: EdgeTextGraph | None = None,
    failures: Sequence[Failure] = (),
) -> Reproduced:
    """The record, its tables in every format, and the figures where the network is at hand."""
    tables, checked = make_tables(record), check_claims(record)
    record.write(plan.path / RECORD)
    texts = {
        "tables.md": "\n".join(filter(None, (to_markdown(tables), claims_text(checked)))),
        "tables.txt": to_terminal(tables),
        "tables.csv": to_csv(tables),
        "tables.tex": to_latex(tables),
    }
    for name, text in texts.items():
        (plan.path / name).unlink(missing_ok=True)  # those of an earlier plan
        if tables:
            write_atomic(plan.path / name, text)
    files = [plan.path / name for name in (RECORD, *(texts if tables else ()))]
    drawn, notes = draw(plan, graph, record)
    return Reproduced(
        plan=plan,
        record=record,
        tables=tables,
        checked=checked,
        files=[*files, *drawn],
        failures=list(failures),
        notes=notes,
    )


def plan_lines(plan: Plan) -> list[list[str]]:
    """A row per row of the table: its model, its seeds, and how many of its runs are done."""
    lines = [["row", "model", "seeds", "finished"]]
    for name in dict.fromkeys(run.row for run in plan.runs):
        mine = [run for run in plan.runs if run.row == name]
        seeds = ", ".join(str(run.seed) for run in mine)
        done = sum(plan.is_done(run) for run in mine)
        lines.append([name, mine[0].model, seeds, f"{done} of {len(mine)}"])
    return lines


def _announce(
    plan: Plan, trials: Plan | None, graph: EdgeTextGraph, options: ExperimentOptions, say: Say
) -> Mapping[str, float]:
    """Say what will be done; gives the seconds that a run of each row is expected to take."""
    say(f"{plan.experiment} ({EXPERIMENTS[plan.experiment]}) on {graph!r}, recipe {plan.recipe}:")
    say("\n".join(format_table(plan_lines(plan), left=(0, 1, 2))))
    for why in plan.left_out:
        say(f"Left out: {why}")
    lost = [f"{run.row}, seed {run.seed}" for run in plan.waiting if run.is_finished]
    if lost:
        say(f"Trained again, for their models were not kept: {'; '.join(lost)}.")
    if trials is not None:
        say(f"Before that, {len(trials.runs)} trials of settings on validation.")
    if plan.experiment == "efficiency" or not options.estimate:
        return {}
    jobs = _jobs(plan, graph, options)
    expected = estimate(plan, graph)
    if plan.waiting:
        say(expected.sentence(jobs))
    if trials is not None and expected.per_run:
        more = sum(expected.per_run.get(run.row, 0.0) for run in trials.waiting)
        say(f"The trials take about {duration(more / jobs)} more.")
    return expected.per_run


def _jobs(plan: Plan, graph: EdgeTextGraph, options: ExperimentOptions) -> int:
    return default_jobs(plan, graph) if options.jobs is None else options.jobs


def to_json(found: Reproduced) -> dict[str, Any]:
    """What the command line tells machines."""
    return {
        "experiment": found.plan.experiment,
        "folder": str(found.plan.path),
        "runs": [
            {"row": run.row, "seed": run.seed, "finished": found.plan.is_done(run)}
            for run in found.plan.runs
        ],
        "files": [str(path) for path in found.files],
        "tables": {
            one.name: {
                row.name: {metric: cell.value for metric, cell in row.cells.items()}
                for row in one.rows
            }
            for one in found.tables
        },
        "claims": [
            {
                "table": one.table,
                "claim": one.claim.text,
                "verdict": one.verdict,
                "margin": one.margin,
                "interval": one.test and [one.test.low, one.test.high],
                "rows_missing": one.missing,
            }
            for one in found.checked
        ],
        "failures": [str(failure) for failure in found.failures],
        "notes": found.notes,
    }
