"""Collects the results of finished runs into a record, with paired significance tests."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from edgeformers.experiments.claim_effects import RowPair
from edgeformers.experiments.claims import claimed_pairs
from edgeformers.experiments.compare import RowComparison
from edgeformers.experiments.model_rows import varies_with_seed
from edgeformers.experiments.plan import PLAN, Plan, PlannedRun
from edgeformers.experiments.record import DIGITS, Comparison, Entry, Record, RowInfo
from edgeformers.experiments.runner import read_outcome
from edgeformers.experiments.scoring import read_examples
from edgeformers.experiments.tables import TableSpec, best_first, row_means, table_specs
from edgeformers.experiments.tune import TRIALS, trial_records
from edgeformers.runs import read_results


def collect_results(plan: Plan) -> Record:
    """The record of a plan's finished runs."""
    finished = [run for run in plan.runs if run.is_finished]
    record = make_record(plan, [run_entry(run, read_results(run.path)) for run in finished])
    examples: dict[str, list[pa.Table]] = {}
    for run in finished:
        if (table := read_examples(run.path)) is not None:
            examples.setdefault(run.row, []).append(table)
    rows = RowComparison(examples, fixed=[row for row in examples if not varies_with_seed(row)])
    leads = [lead for spec in table_specs(record.experiment) for lead in _leads(record, spec)]
    tests: dict[tuple[str, str, str, str], Comparison] = {}
    for spec, metric, pairs in claimed_pairs(record):
        found = [test for pair in pairs if (test := _compare(rows, spec, metric, pair))]
        if found:
            weakest = weakest_test(found)
            tests[weakest.table, weakest.metric, weakest.best, weakest.second] = weakest
    return replace(
        record,
        comparisons=[lead for one in leads if (lead := _compare(rows, *one))],
        claim_tests=list(tests.values()),
    )


def weakest_test(tests: Iterable[Comparison]) -> Comparison:
    """The comparison that decides a claim: one that refutes it, else one that leaves it open."""
    return min(tests, key=lambda test: ((test.low > 0) - (test.high < 0), test.difference))


def make_record(plan: Plan, entries: list[Entry]) -> Record:
    """A record with the given entries, the plan's rows, failures and tuning trials."""
    rows = {
        run.row: RowInfo(name=run.row, title=run.title, group=run.group, task=run.task)
        for run in plan.runs
    }
    failures = [f"Left out: {reason}" for reason in plan.left_out]
    failures += [f"Failed: {reason}" for reason in plan.failures()]
    trials = plan.path / TRIALS / PLAN
    return Record(
        experiment=plan.experiment,
        network={**plan.network_info, "fingerprint": plan.fingerprint},
        dataset=plan.dataset,
        reference=plan.reference,
        recipe=plan.recipe,
        backbone=plan.backbone,
        rows=list(rows.values()),
        entries=entries,
        failures=failures,
        trials=trial_records(Plan.read(trials)) if plan.is_tuned else [],
    )


def run_entry(run: PlannedRun, results: Mapping[str, Mapping[str, Any]]) -> Entry:
    """The entry of a finished run with these metrics by part."""
    outcome = read_outcome(run)
    chosen = outcome.get("chosen", {}).get("setting", {})
    return Entry(
        row=run.row,
        seed=run.seed,
        metrics={part: flat_metrics(values) for part, values in results.items()},
        settings=run.settings | ({"chosen": chosen} if chosen else {}),
        seconds=round(float(outcome.get("seconds", 0.0)), 1),
        device=str(outcome.get("device", "")),
    )


def flat_metrics(results: Mapping[str, Any]) -> dict[str, float]:
    """Scalar metrics, rounded; those of link groups as `full/mrr/degree 1-3` with their sizes."""
    flat = dict(results)
    for protocol, groups in results.get("groups", {}).items():
        for name, group in groups.items():
            flat[f"{protocol}/mrr/{name}"] = group["metrics"]["mrr"]
            flat[f"links/{name}"] = group["pairs"]
    return {
        name: round(float(value), DIGITS)
        for name, value in flat.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def _leads(record: Record, spec: TableSpec) -> Iterator[tuple[TableSpec, str, RowPair]]:
    """The best and the second row by each metric, unless they are tied."""
    means = row_means(record, spec)
    for metric in spec.metrics:
        best, second = [*best_first(means, metric, spec.lower_is_better), "", ""][:2]
        if second and means[best][metric].value != means[second][metric].value:
            yield spec, metric, ((best,), (second,))


def _compare(rows: RowComparison, spec: TableSpec, metric: str, pair: RowPair) -> Comparison | None:
    """A paired comparison of rows that saved the same examples."""
    gap = rows.compare(*pair, spec.part, metric)
    if gap is None:
        return None
    best, second = map("+".join, pair)
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
        seeds=gap.seeds,
    )
