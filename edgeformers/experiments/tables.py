"""Tables as data: means over runs, published numbers, the best two rows marked, and notes."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from edgeformers.data.card.phrasing import counted
from edgeformers.data.recipes import load_recipe
from edgeformers.evaluation import DEGREES, PROFILES, summarize_seeds
from edgeformers.evaluation.dtgb import DTGB, HISTORICAL, HITS, INDUCTIVE
from edgeformers.evaluation.rolling import ROLLING_GROUPS
from edgeformers.experiments.model_rows import ROWS, TIMED_BATCH, TIMED_NEIGHBORS
from edgeformers.experiments.published import Mark, TableCell, published_table
from edgeformers.experiments.record import Comparison, Record, RowInfo
from edgeformers.report.formatting import format_duration, metric_name

PROTOCOLS = {
    "paper": "ranked within batches of 100 pairs, source by source, as published",
    "sampled": "ranked among 99 uniformly sampled nodes that are not known links",
    "full": "ranked among all candidate nodes except known links",
    "paper-shifted": "as paper, with a popularity correction of the scores tuned on validation",
    "paper-unseen": "as paper-shifted, with training neighbors of the query ranked last",
}
ROLLING_TITLE = "each link ranked as of its time, among all nodes that had an edge"
BY_DEGREE = ("degree", DEGREES, "training degree of the query")
BY_PROFILE = ("profile", PROFILES, "known edges of the held-out node")
PART_NAMES = {"test": "test part", "val": "validation part"}
Means = Mapping[str, Mapping[str, TableCell]]  # row -> metric -> mean


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """Which numbers of a record make a table."""

    name: str
    title: str
    part: str
    metrics: tuple[str, ...]
    task: str | None = None  # only rows of this task
    published: str | None = None  # the paper's table with the same numbers
    percent: bool = False
    digits: int = 4
    lower_is_better: bool = False
    groups: tuple[str, ...] = ()  # of links, one per column
    requires: str | None = None  # rows without this metric are left out

    @property
    def scale(self) -> float:
        return 100.0 if self.percent else 1.0


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """One model's numbers and those published for it, by metric."""

    name: str
    title: str
    group: str
    runs: int
    cells: Mapping[str, TableCell]
    published: Mapping[str, TableCell] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ResultTable:
    """A table ready to be rendered; cells are in the units that are shown."""

    name: str
    title: str
    metrics: tuple[str, ...]
    rows: list[TableRow]
    digits: int
    notes: list[str] = field(default_factory=list)  # about this table: significance, group sizes
    facts: list[str] = field(default_factory=list)  # about its record: data, settings, cost

    def has_published(self, metric: str) -> bool:
        """Whether any row has a published number of this metric."""
        return any(metric in row.published for row in self.rows)

    @property
    def metric_names(self) -> list[str]:
        """Display names of the metrics, without the protocol, which is in the title."""
        return [metric_name(metric.rpartition("/")[2]) for metric in self.metrics]


def table_specs(experiment: str) -> list[TableSpec]:
    """The tables of an experiment."""
    if experiment == "edge-classification":
        return [_edge_spec(f"{experiment}/{part}", part) for part in PART_NAMES]
    if experiment == "as-shipped":
        links = [_link_spec(f"{experiment}/links", "test", name) for name in PROTOCOLS]
        degrees = _group_spec(f"{experiment}/links", *BY_DEGREE)
        specs = [_edge_spec(f"{experiment}/edges/test", "test"), *links, degrees]
        return [replace(s, title=f"As shipped: {s.title}", published=None) for s in specs]
    if experiment in ("link-prediction", "cold-start"):
        specs = [_link_spec(experiment, part, name) for part in PART_NAMES for name in PROTOCOLS]
        grouping = BY_PROFILE if experiment == "cold-start" else BY_DEGREE
        return [*specs, _group_spec(experiment, *grouping)]
    if experiment == "chronological":
        full = [_link_spec(experiment, part, "full") for part in PART_NAMES]
        return [*full, _group_spec(experiment, *BY_DEGREE)]
    if experiment == "rolling":
        rolling = [_rolling_spec(part) for part in PART_NAMES]
        return [*rolling, _rolling_group_spec(), *_dtgb_specs()]
    if experiment == "ablation":
        links = [_link_spec(f"{experiment}/links", "test", name) for name in ("paper", "full")]
        return [_edge_spec(f"{experiment}/edges/test", "test"), *links]
    if experiment == "node-classification":
        return [_node_spec(experiment)]
    if experiment == "efficiency":
        return [_time_spec(experiment, part) for part in ("train", "inference")]
    if experiment in ("node-dimension", "neighbor-size"):
        return [_link_spec(experiment, "test", protocol) for protocol in PROTOCOLS]
    return []


def make_tables(record: Record) -> list[ResultTable]:
    """All tables that a record has numbers for."""
    tables = (make_table(record, spec) for spec in table_specs(record.experiment))
    return [table for table in tables if table.rows]


def make_table(record: Record, spec: TableSpec) -> ResultTable:
    """One table: means over runs, the best in bold and the second in italics."""
    means = row_means(record, spec)
    marks = {metric: _marks(means, metric, spec.lower_is_better) for metric in spec.metrics}
    rows = []
    for info in record.rows:
        if info.name in means:
            cells = {
                metric: replace(cell.scaled(spec.scale), mark=marks[metric].get(info.name, ""))
                for metric, cell in means[info.name].items()
            }
            rows.append(_table_row(record, spec, info, cells))
    measured = [metric for metric in spec.metrics if any(metric in row.cells for row in rows)]
    return ResultTable(
        name=spec.name,
        title=spec.title,
        metrics=tuple(measured) if spec.groups else spec.metrics,
        rows=rows,
        digits=spec.digits,
        notes=[
            *_group_sizes(record, spec),
            *_comparison_notes(record, spec),
            *_published_leads(record, spec),
        ],
        facts=_facts(record),
    )


def row_means(record: Record, spec: TableSpec) -> dict[str, dict[str, TableCell]]:
    """Mean and deviation over runs of all measured rows of a table, in the record's units."""
    means = {}
    for row in record.row_names(spec.task):
        runs = [entry.metrics.get(spec.part, {}) for entry in record.entries if entry.row == row]
        known = [metric for metric in spec.metrics if runs and all(metric in run for run in runs)]
        if known and spec.requires in (None, *known):
            spreads = summarize_seeds([{metric: run[metric] for metric in known} for run in runs])
            means[row] = {
                metric: TableCell(spread.mean, spread.deviation if spread.runs > 1 else None)
                for metric, spread in spreads.items()
            }
    return means


def best_first(means: Means, metric: str, lower_is_better: bool = False) -> list[str]:
    """Rows with a mean of this metric, best first."""
    values = {row: cells[metric].value for row, cells in means.items() if metric in cells}
    return sorted(values, key=lambda row: values[row] if lower_is_better else -values[row])


def _marks(means: Means, metric: str, lower_is_better: bool) -> dict[str, Mark]:
    """The marks of the best and the second-best rows; ties share a mark, a single row has none."""
    order = best_first(means, metric, lower_is_better)
    values = list(dict.fromkeys(means[row][metric].value for row in order))
    marks: dict[float, Mark] = dict(zip(values, ("bold", "italic"), strict=False))
    return {row: marks.get(means[row][metric].value, "") for row in order if len(order) > 1}


def _table_row(
    record: Record, spec: TableSpec, info: RowInfo, cells: Mapping[str, TableCell]
) -> TableRow:
    published = {}
    if spec.published is not None:
        table = published_table(spec.published)
        factor = spec.scale / table.scale
        for metric in spec.metrics:
            cell = table.cell(record.dataset, info.name, metric.rpartition("/")[2])
            if cell is not None:
                published[metric] = cell.scaled(factor)
    return TableRow(
        name=info.name,
        title=info.title,
        group=info.group,
        runs=len({entry.seed for entry in record.entries if entry.row == info.name}),
        cells=cells,
        published=published,
    )


def _comparison_notes(record: Record, spec: TableSpec) -> list[str]:
    """How significant the best row's lead is, by metric."""
    titles, rows = record.titles, record.row_names(spec.task)
    digits = 2 if spec.percent else 4

    def show(value: float) -> str:
        return f"{value * spec.scale:.{digits}f}"

    notes = [
        f"{metric_name(lead.metric.rpartition('/')[2])}: {titles[lead.best]} leads "
        f"{titles[lead.second]} by {show(lead.difference)} (95% interval {show(lead.low)} to "
        f"{show(lead.high)}, p = {lead.p_value:.2g}, {lead.examples:,} examples)."
        for lead in map(_leader_first, record.comparisons)
        if lead.table == spec.name and lead.best in rows and lead.second in rows
    ]
    if notes and "/paper" in spec.name:  # see LinkReport
        notes.append("Leads are means over pairs; the table shows means over batches.")
    return notes


def _published_leads(record: Record, spec: TableSpec) -> list[str]:
    """The paper's leads on a dataset whose numbers are not shown, since this network is another."""
    if spec.published is None or record.reference is None or record.dataset is not None:
        return []
    table, leads = published_table(spec.published), []
    for metric in table.metrics:
        if lead := table.lead(record.reference, metric):
            ours, best, difference = lead
            side = "above" if difference >= 0 else "below"
            factor = spec.scale / table.scale
            leads.append(
                f"{abs(difference * factor):.{spec.digits}f} {side} {ROWS[best].title} in "
                f"{metric_name(metric)}"
            )
    title = load_recipe(record.reference).title
    return leads and [
        f"This network is not {title}, so published numbers are not shown. In the paper, on "
        f"{title}, {ROWS[ours].title} is {' and '.join(leads)} (the best baseline)."
    ]


def _leader_first(pair: Comparison) -> Comparison:
    """The same comparison with the row first that is ahead on the examples."""
    if pair.difference >= 0:
        return pair
    low, high = -pair.high, -pair.low
    swapped = replace(pair, best=pair.second, second=pair.best, low=low, high=high)
    return replace(swapped, difference=-pair.difference)


def _group_sizes(record: Record, spec: TableSpec) -> list[str]:
    """The number of links in each group, which is the same for every row."""
    metrics = next((entry.metrics.get(spec.part, {}) for entry in record.entries), {})
    counts = {name: int(metrics.get(f"links/{name}", 0)) for name in spec.groups}
    sizes = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    return [f"Links: {sizes}."] if sizes else []


def _facts(record: Record) -> list[str]:
    """Data, settings and cost."""
    network = record.network
    facts = [
        f"{network['name']}: {network['nodes']:,} nodes, {network['edges']:,} edges; recipe "
        f"{record.recipe}, backbone {record.backbone}; {_averaging(record)}."
    ]
    for device in dict.fromkeys(entry.device for entry in record.entries):
        entries = [entry for entry in record.entries if entry.device == device]
        runs = counted(len({(entry.row, entry.seed) for entry in entries}), "run", "runs")
        seconds = sum(entry.seconds for entry in entries)
        minutes = counted(max(1, round(seconds / 60)), "GPU minute", "GPU minutes")
        time = format_duration(seconds) if device in ("", "cpu") else minutes
        facts.append(f"{runs} on {device}: {time} in total (wall times; runs may share it).")
    return facts + record.failures


def _averaging(record: Record) -> str:
    """What means and deviations are over: seeds, and regressions of node classification."""
    per_run = Counter((entry.row, entry.seed) for entry in record.entries)
    seeds, regressions = len({seed for _, seed in per_run}), max(per_run.values(), default=1)
    over = "one seed" if seeds == 1 else f"mean ± deviation over up to {seeds} seeds"
    if regressions == 1:
        return over
    joined = ", mean ± deviation over" if seeds == 1 else " and"
    return f"{over}{joined} {regressions} regressions per run"


def _edge_spec(name: str, part: str) -> TableSpec:
    return TableSpec(
        name=name,
        title=f"Edge classification, {PART_NAMES[part]}",
        part=part,
        metrics=("macro_f1", "micro_f1"),
        task="edge-classification",
        published="edge-classification" if part == "test" else None,
        percent=True,
        digits=2,
    )


def _link_spec(experiment: str, part: str, protocol: str) -> TableSpec:
    published = {
        ("link-prediction", "test"): "link-prediction",
        ("link-prediction", "val"): "link-prediction-validation",
        ("ablation/links", "test"): "ablation",
    }.get((experiment, part))
    return TableSpec(
        name=f"{experiment}/{part}/{protocol}",
        title=f"Link prediction, {PART_NAMES[part]}, protocol {protocol}: {PROTOCOLS[protocol]}",
        part=part,
        metrics=(f"{protocol}/mrr", f"{protocol}/ndcg", f"{protocol}/hit@10"),
        task="link-prediction",
        published=published if protocol == "paper" else None,
    )


def _group_spec(experiment: str, name: str, groups: Iterable[str], by: str) -> TableSpec:
    return TableSpec(
        name=f"{experiment}/test/full/{name}",
        title=f"Link prediction, {PART_NAMES['test']}, protocol full: MRR by {by}",
        part="test",
        metrics=tuple(f"full/mrr/{group}" for group in groups),
        task="link-prediction",
        groups=tuple(groups),
    )


def _rolling_spec(part: str) -> TableSpec:
    return TableSpec(
        name=f"rolling/{part}",
        title=f"Link prediction, {PART_NAMES[part]}, protocol rolling: {ROLLING_TITLE}",
        part=part,
        metrics=("rolling/mrr", "rolling/ndcg", "rolling/hit@10"),
        task="link-prediction",
    )


def _rolling_group_spec() -> TableSpec:
    return TableSpec(
        name="rolling/test/groups",
        title="Link prediction, test part, protocol rolling: MRR by what training knew",
        part="test",
        metrics=tuple(f"rolling/mrr/{group}" for group in ROLLING_GROUPS),
        task="link-prediction",
        groups=ROLLING_GROUPS,
    )


def _dtgb_specs() -> list[TableSpec]:
    """DTGB's metrics: of all links, of links with a new node, and among historical negatives."""
    hits = tuple(f"hit@{k}" for k in HITS)
    one = "AP and AUC against one random node, Hits among 99 random nodes"
    return [
        _dtgb_spec(DTGB, f"{one}; MRR is that of rolling", ("ap", "auc", *hits), "rolling/mrr"),
        _dtgb_spec(f"{DTGB}-{INDUCTIVE}", f"links of a new node; {one}", ("ap", "auc", *hits)),
        _dtgb_spec(HISTORICAL, "Hits among 99 nodes, earlier targets of the source first", hits),
    ]


def _dtgb_spec(protocol: str, title: str, metrics: tuple[str, ...], *others: str) -> TableSpec:
    own = tuple(f"{protocol}/{name}" for name in metrics)
    return TableSpec(
        name=f"rolling/test/{protocol}",
        title=f"Link prediction, test part, DTGB's protocol: {title}",
        part="test",
        metrics=(*own, *others),
        requires=own[0],
        task="link-prediction",
    )


def _node_spec(experiment: str) -> TableSpec:
    return TableSpec(
        name=experiment,
        title="Node classification by logistic regression on frozen embeddings",
        part="test",
        metrics=("macro_f1", "micro_f1", "precision"),
        published=experiment,
    )


def _time_spec(experiment: str, part: str) -> TableSpec:
    step = "training step" if part == "train" else "encoding"
    return TableSpec(
        name=f"{experiment}/{part}",
        title=f"Milliseconds per mini-batch of {TIMED_BATCH} nodes by number of neighbors, {step}",
        part=part,
        metrics=tuple(map(str, TIMED_NEIGHBORS)),
        published="efficiency" if part == "train" else None,
        digits=2,
        lower_is_better=True,
    )
