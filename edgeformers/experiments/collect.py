"""From run folders to a record: what finished runs say, and how sure the best of them leads."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from edgeformers.errors import InputError
from edgeformers.experiments.claims import close_calls
from edgeformers.experiments.compare import compare_rows
from edgeformers.experiments.plan import PLAN, Plan, Run
from edgeformers.experiments.record import DIGITS, Comparison, Entry, Record, RowInfo
from edgeformers.experiments.scoring import read_examples
from edgeformers.experiments.tables import Spec, ranking, row_means, table_specs
from edgeformers.experiments.tune import TRIALS, trial_records
from edgeformers.experiments.worker import read_outcome
from edgeformers.runs import read_results


def collect_results(plan: Plan) -> Record:
    """The record of a plan's finished runs, in the order of its rows."""
    entries = [_entry(run) for run in plan.runs if run.is_finished]
    record = make_record(plan, entries)
    return _with_comparisons(record, plan)


def make_record(plan: Plan, entries: list[Entry]) -> Record:
    """A record of entries that were made otherwise."""
    trials = plan.path / TRIALS / PLAN
    return Record(
        experiment=plan.experiment,
        network={**plan.network_info, "fingerprint": plan.fingerprint},
        dataset=plan.dataset,
        recipe=plan.recipe,
        backbone=plan.backbone,
        rows=_rows(plan),
        entries=entries,
        failures=[f"Left out: {why}" for why in plan.left_out]
        + [f"Failed: {why}" for why in failures(plan)],
        trials=trial_records(Plan.read(trials)) if plan.is_tuned else [],
    )


def find_plans(folder: Path) -> list[Plan]:
    """The plans of all experiments in a folder."""
    found = sorted(folder.expanduser().glob(f"*/{PLAN}"))
    if not found:
        raise InputError(
            f"{folder} has no experiment to make tables of; run one there first: edgeformers "
            f"reproduce edge-classification --data NETWORK -o {folder}"
        )
    return [Plan.read(path) for path in found]


def failures(plan: Plan) -> list[str]:
    """Runs that failed when they were last tried, with their sentences."""
    return [
        f"{run.row}, seed {run.seed}: {run.failure.read_text(encoding='utf-8').strip()}"
        for run in plan.runs
        if not plan.is_done(run) and run.failure.is_file()
    ]


def _rows(plan: Plan) -> list[RowInfo]:
    found = {
        run.row: RowInfo(name=run.row, title=run.title, group=run.group, task=run.task)
        for run in plan.runs
    }
    return list(found.values())


def _entry(run: Run) -> Entry:
    outcome = read_outcome(run)
    chosen = outcome.get("chosen", {}).get("setting", {})
    return Entry(
        row=run.row,
        seed=run.seed,
        metrics={
            part: numbers(found) | group_numbers(found)
            for part, found in read_results(run.path).items()
        },
        settings=run.settings | ({"chosen": chosen} if chosen else {}),
        seconds=round(float(outcome.get("seconds", 0.0)), 1),
        device=str(outcome.get("device", "")),
    )


def numbers(found: Mapping[str, Any]) -> dict[str, float]:
    """The metrics that are one number, with the digits that are kept."""
    return {
        name: round(float(value), DIGITS)
        for name, value in found.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def group_numbers(found: Mapping[str, Any]) -> dict[str, float]:
    """The MRR of links by group, as `full/mrr/degree 1-3`, and how many links are in each."""
    kept: dict[str, float] = {}
    for protocol, groups in found.get("groups", {}).items():
        for name, one in groups.items():
            kept |= {f"{protocol}/mrr/{name}": one["metrics"]["mrr"], f"links/{name}": one["pairs"]}
    return numbers(kept)


def _with_comparisons(record: Record, plan: Plan) -> Record:
    examples: dict[str, list[pa.Table]] = {}
    for run in plan.runs:
        table = read_examples(run.path) if run.is_finished else None
        if table is not None:
            examples.setdefault(run.row, []).append(table)
    leads = [
        one for spec in table_specs(record.experiment) for one in _leads(record, spec, examples)
    ]
    tested = [
        _compare(spec, close.metric, close.above, close.below, examples)
        for spec, close in close_calls(record)
    ]
    return replace(record, comparisons=leads, claim_tests=[one for one in tested if one])


def _leads(
    record: Record, spec: Spec, examples: Mapping[str, list[pa.Table]]
) -> Iterator[Comparison]:
    means = row_means(record, spec)
    for metric in spec.metrics:
        order = ranking(means, metric, spec.lower_is_better)
        if len(order) < 2 or means[order[0]][metric].value == means[order[1]][metric].value:
            continue
        found = _compare(spec, metric, order[0], order[1], examples)
        if found is not None:
            yield found


def _compare(
    spec: Spec, metric: str, best: str, second: str, examples: Mapping[str, list[pa.Table]]
) -> Comparison | None:
    """Two rows on the examples of their runs; None where these were not kept, or are others."""
    if best not in examples or second not in examples:
        return None
    gap = compare_rows(examples[best], examples[second], spec.part, metric)
    if gap is None:
        return None
    return Comparison(
        table=spec.name,
        metric=metric,
        best=best,
        second=second,
        difference=round(gap.value, DIGITS),
        low=round(gap.low, DIGITS),
        high=round(gap.high, DIGITS),
        p_value=gap.p_value,
        examples=gap.examples,
    )
