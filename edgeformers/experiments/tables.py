"""Tables as data: the rows of a record, the published numbers beside them, the best marked."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from edgeformers.data.card.phrasing import counted
from edgeformers.evaluation import DEGREES, PROFILES, summarize_seeds
from edgeformers.experiments.estimate import duration
from edgeformers.experiments.published import Mark, published_table
from edgeformers.experiments.record import Comparison, Record, RowInfo
from edgeformers.report.formatting import metric_name

PROTOCOLS = {
    "paper": "ranked within batches of 100 pairs in file order, as published",
    "sampled": "ranked among 99 nodes drawn evenly that are no known link",
    "full": "ranked among all candidate nodes, known links left out",
    "paper-shifted": "as paper, popularity taken off the scores, how much chosen on validation",
    "paper-unseen": "as paper-shifted, nodes to which the query has a training edge ranked last",
}
PART_NAMES = {"test": "test part", "val": "validation part"}


@dataclass(frozen=True, kw_only=True)
class Spec:
    """Which numbers of a record make a table."""

    name: str
    title: str
    part: str
    metrics: tuple[str, ...]
    task: str | None = None  # only rows of this task
    published: str | None = None  # the paper's table that stands beside
    percent: bool = False
    digits: int = 4
    lower_is_better: bool = False
    groups: tuple[str, ...] = ()  # of links, where each column is of one


@dataclass(frozen=True)
class Cell:
    """A mean over runs, its deviation where there are several, and how it is set."""

    value: float
    deviation: float | None = None
    mark: Mark = ""


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """One model's numbers and those published for it, by metric."""

    name: str
    title: str
    group: str
    runs: int
    cells: Mapping[str, Cell]
    published: Mapping[str, Cell] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table ready to be rendered; cells are in the units that are shown."""

    name: str
    title: str
    metrics: tuple[str, ...]
    rows: list[TableRow]
    digits: int
    notes: list[str] = field(default_factory=list)  # of this table: how sure the best leads
    facts: list[str] = field(default_factory=list)  # of its record: data, settings and cost

    def has_published(self, metric: str) -> bool:
        """Whether any row has a published number of this metric."""
        return any(metric in row.published for row in self.rows)

    @property
    def names(self) -> list[str]:
        """The metrics as they are written; the protocol stands in the title."""
        return [metric_name(metric.rpartition("/")[2]) for metric in self.metrics]


def table_specs(experiment: str) -> list[Spec]:
    """The tables of an experiment."""
    if experiment == "edge-classification":
        return [_edges(f"{experiment}/{part}", part) for part in PART_NAMES]
    if experiment == "link-prediction":
        every = [
            _links(experiment, part, protocol) for part in PART_NAMES for protocol in PROTOCOLS
        ]
        return [*every, _groups(experiment, "degree", DEGREES, "training edges of the query")]
    if experiment == "cold-start":
        every = [
            _links(experiment, part, protocol) for part in PART_NAMES for protocol in PROTOCOLS
        ]
        return [
            *every,
            _groups(experiment, "profile", PROFILES, "edges known of the node held out"),
        ]
    if experiment == "ablation":
        links = [_links(f"{experiment}/links", "test", protocol) for protocol in ("paper", "full")]
        return [_edges(f"{experiment}/edges/test", "test"), *links]
    if experiment == "node-classification":
        metrics = ("macro_f1", "micro_f1", "precision")
        title = "Node classification by logistic regression on frozen embeddings"
        return [
            Spec(name=experiment, title=title, part="test", metrics=metrics, published=experiment)
        ]
    if experiment == "efficiency":
        return [_times(experiment, part) for part in ("train", "inference")]
    if experiment in ("node-dimension", "neighbor-size"):
        return [_links(experiment, "test", protocol) for protocol in PROTOCOLS]
    return []


def make_tables(record: Record) -> list[Table]:
    """All tables that a record has numbers for."""
    made = (make_table(record, spec) for spec in table_specs(record.experiment))
    return [table for table in made if table.rows]


def make_table(record: Record, spec: Spec) -> Table:
    """One table: means over runs, the best bold and the second in italics."""
    rows = [info for info in record.rows if spec.task in (None, info.task)]
    means = {row.name: _means(record, row.name, spec) for row in rows}
    places = {metric: _places(means, metric, spec.lower_is_better) for metric in spec.metrics}
    built = [
        _row(record, spec, info, means[info.name], places) for info in rows if means[info.name]
    ]
    shown = [metric for metric in spec.metrics if any(metric in row.cells for row in built)]
    return Table(
        name=spec.name,
        title=spec.title,
        metrics=tuple(shown) if spec.groups else spec.metrics,
        rows=built,
        digits=spec.digits,
        notes=[*_group_sizes(record, spec), *_comparisons(record, spec, rows)],
        facts=_facts(record),
    )


def ranking(
    means: Mapping[str, Mapping[str, Cell]], metric: str, lower_is_better: bool = False
) -> list[str]:
    """Rows by their mean, the best first; rows without one are left out."""
    found = {row: cells[metric].value for row, cells in means.items() if metric in cells}
    return sorted(found, key=lambda row: found[row] if lower_is_better else -found[row])


def _places(
    means: Mapping[str, Mapping[str, Cell]], metric: str, lower_is_better: bool
) -> dict[str, int]:
    """The place of every row, from 0; equal rows share theirs, and a row alone has none."""
    order = ranking(means, metric, lower_is_better)
    values = list(dict.fromkeys(means[row][metric].value for row in order))
    return {row: values.index(means[row][metric].value) for row in order if len(order) > 1}


def row_means(record: Record, spec: Spec) -> dict[str, dict[str, Cell]]:
    """The means of all rows of a table, in the units of the record."""
    rows = [info.name for info in record.rows if spec.task in (None, info.task)]
    return {row: found for row in rows if (found := _means(record, row, spec))}


def _means(record: Record, row: str, spec: Spec) -> dict[str, Cell]:
    runs = [entry.metrics.get(spec.part, {}) for entry in record.entries if entry.row == row]
    known = [metric for metric in spec.metrics if runs and all(metric in run for run in runs)]
    if not known:
        return {}
    spread = summarize_seeds([{metric: run[metric] for metric in known} for run in runs])
    return {
        metric: Cell(one.mean, one.deviation if one.runs > 1 else None)
        for metric, one in spread.items()
    }


def _row(
    record: Record,
    spec: Spec,
    info: RowInfo,
    means: Mapping[str, Cell],
    places: Mapping[str, Mapping[str, int]],
) -> TableRow:
    def mark(metric: str) -> Mark:
        place = places[metric].get(info.name, 2)
        return "bold" if place == 0 else "italic" if place == 1 else ""

    size = 100.0 if spec.percent else 1.0
    cells = {name: _scaled(cell, size, mark(name)) for name, cell in means.items()}
    runs = len({entry.seed for entry in record.entries if entry.row == info.name})
    return TableRow(
        name=info.name,
        title=info.title,
        group=info.group,
        runs=runs,
        cells=cells,
        published=_published(record, spec, info.name, size),
    )


def _scaled(cell: Cell, size: float, mark: Mark) -> Cell:
    deviation = None if cell.deviation is None else cell.deviation * size
    return Cell(cell.value * size, deviation, mark)


def _published(record: Record, spec: Spec, row: str, size: float) -> dict[str, Cell]:
    if spec.published is None:
        return {}
    table = published_table(spec.published)
    found = {}
    for metric in spec.metrics:
        cell = table.cell(record.dataset, row, metric.rpartition("/")[2])
        if cell is not None:
            value, deviation = table.in_our_units(cell)
            shown = None if deviation is None else deviation * size
            found[metric] = Cell(value * size, shown, cell.mark)
    return found


def _comparisons(record: Record, spec: Spec, rows: Sequence[RowInfo]) -> list[str]:
    """How sure the best row's lead is, metric by metric."""
    titles = {info.name: info.title for info in rows}
    size, digits = (100.0, 2) if spec.percent else (1.0, 4)
    told = [
        f"{metric_name(one.metric.rpartition('/')[2])}: {titles[one.best]} leads "
        f"{titles[one.second]} by {one.difference * size:.{digits}f} "
        f"(95% interval {one.low * size:.{digits}f} to {one.high * size:.{digits}f}, "
        f"p = {one.p_value:.2g}, {one.examples:,} examples)."
        for one in map(_leader_first, record.comparisons)
        if one.table == spec.name and one.best in titles and one.second in titles
    ]
    if told and "/paper" in spec.name:  # see LinkReport
        told.append("Leads are of means over pairs, the figures above of means over batches.")
    return told


def _group_sizes(record: Record, spec: Spec) -> list[str]:
    """How many links are in each group, which is the same for every row."""
    found = next((entry.metrics.get(spec.part, {}) for entry in record.entries), {})
    counts = {name: int(found.get(f"links/{name}", 0)) for name in spec.groups}
    told = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    return [f"Links: {told}."] if told else []


def _leader_first(one: Comparison) -> Comparison:
    """The row first that is ahead example by example, be it the second by the table's means."""
    if one.difference >= 0:
        return one
    return replace(
        one,
        best=one.second,
        second=one.best,
        difference=-one.difference,
        low=-one.high,
        high=-one.low,
    )


def _facts(record: Record) -> list[str]:
    """The data, the settings, and what it cost."""
    network = record.network
    told = [
        f"{network['name']}: {network['nodes']:,} nodes, {network['edges']:,} edges; recipe "
        f"{record.recipe}, backbone {record.backbone}; {_averaged(record)}."
    ]
    for device in dict.fromkeys(entry.device for entry in record.entries):
        mine = [entry for entry in record.entries if entry.device == device]
        runs = counted(len({(entry.row, entry.seed) for entry in mine}), "run", "runs")
        spent = _spent(sum(entry.seconds for entry in mine), device)
        told.append(f"{runs} on {device}: {spent} in all, each run's own time added up.")
    return told + record.failures


def _averaged(record: Record) -> str:
    """What the means and deviations are over: seeds, and what a run was scored with repeatedly."""
    per_run = Counter((entry.row, entry.seed) for entry in record.entries)
    seeds, regressions = len({seed for _, seed in per_run}), max(per_run.values(), default=1)
    told = "one seed" if seeds == 1 else f"mean ± deviation over up to {seeds} seeds"
    if regressions == 1:
        return told
    joined = ", mean ± deviation over" if seeds == 1 else " and"
    return f"{told}{joined} {regressions} regressions on each run"


def _spent(seconds: float, device: str) -> str:
    """Time on a GPU is told as such, in minutes, whatever its name."""
    if device in ("", "cpu"):
        return duration(seconds)
    return counted(max(1, round(seconds / 60)), "GPU minute", "GPU minutes")


def _edges(name: str, part: str) -> Spec:
    return Spec(
        name=name,
        title=f"Edge classification, {PART_NAMES[part]}",
        part=part,
        metrics=("macro_f1", "micro_f1"),
        task="edge-classification",
        published="edge-classification" if part == "test" else None,
        percent=True,
        digits=2,
    )


def _links(experiment: str, part: str, protocol: str) -> Spec:
    theirs = {"link-prediction": {"test": "link-prediction", "val": "link-prediction-validation"}}
    theirs["ablation/links"] = {"test": "ablation"}
    published = theirs.get(experiment, {}).get(part) if protocol == "paper" else None
    return Spec(
        name=f"{experiment}/{part}/{protocol}",
        title=f"Link prediction, {PART_NAMES[part]}, protocol {protocol}: {PROTOCOLS[protocol]}",
        part=part,
        metrics=(f"{protocol}/mrr", f"{protocol}/ndcg", f"{protocol}/hit@10"),
        task="link-prediction",
        published=published,
    )


def _groups(experiment: str, by: str, groups: Iterable[str], words: str) -> Spec:
    """The links of the test part in groups, ranked among all candidates."""
    return Spec(
        name=f"{experiment}/test/full/{by}",
        title=f"Link prediction, {PART_NAMES['test']}, protocol full: MRR by {words}",
        part="test",
        metrics=tuple(f"full/mrr/{group}" for group in groups),
        task="link-prediction",
        groups=tuple(groups),
    )


def _times(experiment: str, part: str) -> Spec:
    step = "training step" if part == "train" else "encoding"
    return Spec(
        name=f"{experiment}/{part}",
        title=f"Milliseconds per mini-batch of 25 nodes by number of neighbors, {step}",
        part=part,
        metrics=("2", "3", "4", "5"),
        published="efficiency" if part == "train" else None,
        digits=2,
        lower_is_better=True,
    )
