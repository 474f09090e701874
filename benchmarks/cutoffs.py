"""Link prediction trained on the past, pooled over several moments in the life of a network.

python -m benchmarks.cutoffs --network FOLDER -o OUT --backbone minilm --seeds 3
python -m benchmarks.cutoffs --network FOLDER -o OUT --models popularity recent-popularity ease

For each cutoff c, the network is written again as it was when it had the first share c of its
edges, and `reproduce chronological` (or `--experiment rolling`) runs on it: 80% of those edges
train, the next 10% validate, the last 10% test. The test links of all cutoffs are then pooled, and
the row of `--ours` is compared with the baseline that is best on the pooled validation links, pair
by pair, resampling sources. Everything is in one folder, and finished runs are not run again; the
summary, OUT/EXPERIMENT.json, covers the rows of all calls with this folder, which must have the
same settings.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.rolling import ratio
from edgeformers.config import parse_setting
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig, write_network
from edgeformers.data.splits import SplitConfig
from edgeformers.data.table import EdgeTable
from edgeformers.data.types import Floats, IntArray
from edgeformers.errors import InputError
from edgeformers.evaluation.rolling import ROLLING_GROUPS
from edgeformers.experiments.plan import ExperimentOptions
from edgeformers.experiments.reproduce import reproduce
from edgeformers.experiments.scoring import read_examples
from edgeformers.files import write_atomic
from edgeformers.inference.model_card import RESULTS

CUTOFFS = (0.6, 0.7, 0.8, 0.9, 1.0)
OURS = "edgeformer-n-ensemble"
PROTOCOLS = {"chronological": "full", "rolling": "rolling"}


@dataclass(frozen=True)
class Links:
    """Links of one part and all cutoffs, in the same order for every row [n]."""

    gains: Mapping[str, Floats]  # row -> reciprocal ranks, means over seeds
    seeds: Mapping[str, int]  # row -> runs per cutoff
    sources: np.ndarray[Any, Any]  # ids of nodes
    groups: Mapping[str, np.ndarray[Any, Any]]


def network_until(graph: EdgeTextGraph, share: float, folder: Path) -> EdgeTextGraph:
    """The network as it was when it had this share of its edges, written once."""
    if folder.is_dir():
        return EdgeTextGraph.open(folder)
    assert graph.times is not None
    first = np.argsort(graph.times, kind="stable")[: int(share * graph.num_edges)]
    kept = np.sort(first)
    names = ["label", "time"] if graph.labels is not None else ["time"]
    columns = graph.edges(names).take(pa.array(kept))
    ends: Mapping[str, IntArray] = {"source": graph.src, "target": graph.dst}
    texts = {side: graph.node_names(nodes[kept]) for side, nodes in ends.items()}
    texts["text"] = graph.texts(kept)
    arrays = {name: pa.array(values, pa.string()) for name, values in texts.items()}
    arrays |= {name: columns.column(name).combine_chunks() for name in names}
    batch = pa.RecordBatch.from_pydict(arrays)
    table = EdgeTable(
        schema=batch.schema,
        open=lambda: iter([batch]),
        origin=f"{graph.name}, first {share:.0%} of the edges",
        bipartite=graph.is_bipartite,
        directed=graph.is_directed,
        label_kind=graph.label_kind or "class",
    )
    config = PrepareConfig(
        splits=[SplitConfig(name="link", how="chronological", fractions=(0.8, 0.1, 0.1))],
        tokenizer=None,
        positive_labels=graph.meta.positive_labels,
        progress=False,
    )
    return write_network(table, folder, config=config)


def experiment_options(args: argparse.Namespace) -> ExperimentOptions:
    settings = {} if args.backbone is None else {"model.backbone": args.backbone}
    settings |= {"train.epochs": args.epochs} if args.epochs else {}
    settings |= dict(map(parse_setting, args.set or ()))
    return ExperimentOptions(
        seeds=args.seeds,
        settings=settings,
        models=args.models,
        keep_models=False,
        device=args.device,
        jobs=args.jobs,
        estimate=False,
    )


def finished_runs(folder: Path, experiment: str) -> dict[str, list[Path]]:
    """The folders of the finished runs at a cutoff, by row."""
    runs: dict[str, list[Path]] = {}
    for finished in sorted((folder / "runs").glob(f"*-{experiment}/*/{RESULTS}")):
        row = finished.parts[-3].removesuffix(f"-{experiment}")
        runs.setdefault(row, []).append(finished.parent)
    return runs


def check_settings(network: EdgeTextGraph, folder: Path, args: argparse.Namespace) -> None:
    """Exit if runs of earlier calls have other settings than this call, or another network."""
    runs = finished_runs(folder, args.experiment)
    if not runs:
        return
    seeds = max(map(len, runs.values()))
    options = replace(experiment_options(args), models=[*runs], seeds=seeds, dry_run=True)
    try:
        reproduce(args.experiment, network, folder, options, show=False)
    except InputError as error:
        raise SystemExit(str(error)) from None


def run_cutoff(network: EdgeTextGraph, folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Run an experiment at a cutoff; row -> the ranks of its runs, one table per seed."""
    results = reproduce(args.experiment, network, folder, experiment_options(args), show=False)
    for failure in results.failures:
        print(f"failed at {folder.name}%: {failure}", flush=True)
    tables = read_tables(finished_runs(folder, args.experiment))
    print(f"{folder.name}%: {network.num_edges:,} edges, {len(tables)} rows", flush=True)
    return {"network": network, "tables": tables}


def read_tables(runs: Mapping[str, Sequence[Path]]) -> dict[str, list[pa.Table]]:
    """The ranks of runs, all of the same links."""
    tables: dict[str, list[pa.Table]] = {}
    first: tuple[Path, pa.Table] | None = None
    for row, folders in runs.items():
        for folder in folders:
            if (table := read_examples(folder)) is None:
                continue
            first = first or (folder, table)
            if not table["edge"].equals(first[1]["edge"]):
                raise SystemExit(
                    f"{folder} and {first[0]} rank different links; remove the older one"
                )
            tables.setdefault(row, []).append(table)
    return tables


def pool(cutoffs: Sequence[dict[str, Any]], part: str, protocol: str) -> Links:
    """The links of a part at all cutoffs; only rows that are finished everywhere."""
    common = set.intersection(*(set(each["tables"]) for each in cutoffs))
    rows = [row for row in cutoffs[0]["tables"] if row in common]
    gains: dict[str, list[Floats]] = {row: [] for row in rows}
    sources: list[str] = []
    groups: dict[str, list[Any]] = {name: [] for name in ROLLING_GROUPS}
    for each in cutoffs:
        chosen = {row: [_of_part(table, part) for table in each["tables"][row]] for row in rows}
        first = chosen[rows[0]][0]
        for row, tables in chosen.items():
            gains[row].append(np.mean([1 / table[protocol].to_numpy() for table in tables], axis=0))
        sources += each["network"].node_names(first["query"].to_numpy())
        for name in ROLLING_GROUPS:
            if name in first.column_names:
                groups[name].append(np.array(first[name].to_pylist()) == name)
    return Links(
        gains={row: np.concatenate(parts) for row, parts in gains.items()},
        seeds={row: min(len(each["tables"][row]) for each in cutoffs) for row in rows},
        sources=np.array(sources),
        groups={name: np.concatenate(masks) for name, masks in groups.items() if masks},
    )


def _of_part(table: pa.Table, part: str) -> pa.Table:
    return table.filter(pa.array([name == part for name in table["part"].to_pylist()]))


def summarize(val: Links, test: Links, ours: str, baselines: Sequence[str]) -> dict[str, Any]:
    """Pooled MRR of every row, and `ours` against the baseline that validation picks.

    Also against the baseline that is best on test, which nobody could have picked.
    """
    rows = {
        row: {
            "val": float(val.gains[row].mean()),
            "test": float(gains.mean()),
            "seeds": test.seeds[row],
        }
        for row, gains in test.gains.items()
    }
    summary: dict[str, Any] = {"links": len(test.sources), "rows": rows}
    known = [row for row in baselines if row in rows]
    if known:
        summary["baseline"] = best = max(known, key=lambda row: rows[row]["val"])
        everything = np.ones(len(test.sources), bool)
        if ours in rows:
            summary["ratios"] = {
                name: ratio(
                    test.gains[ours][chosen], test.gains[best][chosen], test.sources[chosen]
                )
                for name, chosen in {"all": everything, **test.groups}.items()
                if chosen.any()
            }
            row = max(known, key=lambda row: rows[row]["test"])
            compared = ratio(test.gains[ours], test.gains[row], test.sources)
            summary["best_on_test"] = {"row": row, **compared}
    return summary


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", type=Path, required=True)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--experiment", choices=PROTOCOLS, default="chronological")
    parser.add_argument("--cutoffs", type=float, nargs="+", default=CUTOFFS)
    parser.add_argument("--models", nargs="+", help="rows of the experiment; by default all")
    parser.add_argument("--ours", default=OURS)
    parser.add_argument("--backbone")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, help="by default those of the recipe")
    parser.add_argument("--set", nargs="+", help="settings of all rows: train.frozen_layers=5")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device")
    args = parser.parse_args(arguments)
    graph = EdgeTextGraph.open(args.network)
    names = [f"{share:.0%}".removesuffix("%") for share in args.cutoffs]
    networks = [
        network_until(graph, share, args.out / "networks" / f"{graph.name}-{name}")
        for share, name in zip(args.cutoffs, names, strict=True)
    ]
    folders = [args.out / name for name in names]
    for network, folder in zip(networks, folders, strict=True):
        check_settings(network, folder, args)
    cutoffs = [run_cutoff(*each, args) for each in zip(networks, folders, strict=True)]
    val, test = (pool(cutoffs, part, PROTOCOLS[args.experiment]) for part in ("val", "test"))
    ours = ("edgeformer", args.ours)
    baselines = [row for row in test.gains if not row.startswith(ours)]
    summary = summarize(val, test, args.ours, baselines)
    facts = {"network": graph.name, "experiment": args.experiment, "cutoffs": list(args.cutoffs)}
    epochs = [f"train.epochs={args.epochs}"] if args.epochs else []
    facts |= {"backbone": args.backbone, "settings": [*epochs, *(args.set or [])]}
    path = args.out / f"{args.experiment}.json"
    write_atomic(path, json.dumps({**facts, **summary}, indent=1) + "\n")
    for row, mrr in summary["rows"].items():
        print(f"{row:28} val {mrr['val']:.4f} test {mrr['test']:.4f}")
    print(f"{summary['links']:,} test links; picked on validation: {summary.get('baseline')}")
    for name, found in summary.get("ratios", {}).items():
        low, high = found["interval"]
        print(f"{name:12} {found['links']:6,} links, ratio {found['ratio']:.3f}", end=" ")
        print(f"({low:.3f} to {high:.3f})")


if __name__ == "__main__":
    main()
