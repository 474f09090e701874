"""The recipe `default` against time-aware baselines under the protocol `rolling`.

python -m benchmarks.rolling --network FOLDER --backbone minilm --seeds 42 43 44
python -m benchmarks.rolling --network FOLDER --backbone scratch:2x32 --seeds 42 --epochs 1

The split must be chronological. Each row is recorded with its ranks under
benchmarks/results/rolling; rows that are there are not run again. The last table compares
`default` with the baseline that validation picks, pair by pair, resampling sources; also for links
that are the first of their source and for all others.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeformers.baselines.registry import LINK_BASELINES, ROLLING_BASELINES
from edgeformers.config import parse_setting
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.types import Floats
from edgeformers.estimators import LinkPredictor
from edgeformers.evaluation import LinkReport, compare_paired
from edgeformers.evaluation.report import ROLLING
from edgeformers.evaluation.rolling import ROLLING_GROUPS, RollingLinks
from edgeformers.files import write_atomic
from edgeformers.inference.ensemble import fit_ensemble
from edgeformers.inference.rolling import RollingPredictor

RESULTS = Path(__file__).parent / "results" / "rolling"
DEFAULT = "default"
UNTRAINED = "untrained"  # `default` without training: what the ensemble does alone
FIRST_GROUPS = ("first of source", "later of source")


def run_row(graph: EdgeTextGraph, row: str, seed: int, args: argparse.Namespace) -> dict[str, Any]:
    """Fit one row and rank validation and test."""
    chosen: dict[str, Any] = {}

    def rolling() -> Any:
        if row not in (DEFAULT, UNTRAINED):
            return LINK_BASELINES[row](seed=seed).fit_rolling(graph, args.split)
        return RollingPredictor(fitted)

    if row in (DEFAULT, UNTRAINED):
        settings = {"train.seed": seed, "data.split": args.split}
        settings |= dict(map(parse_setting, settings_of(row, args)))
        predictor = LinkPredictor(args.backbone, settings=settings)
        if row == DEFAULT:
            fitted = predictor.fit(graph).fitted_
        else:
            alone = predictor.make_objective(graph).fitted
            fitted = replace(alone, ensemble=fit_ensemble(alone))
        if fitted.ensemble is not None and (w := fitted.ensemble.rolling_weights) is not None:
            names = ["text", *(component.name for component in fitted.ensemble.components)]
            chosen = dict(zip(names, w.T.tolist(), strict=True))
    reports = {part: RollingLinks(graph, args.split, part).rank(rolling()) for part in PARTS}
    return {
        "row": row,
        "seed": seed,
        "backbone": args.backbone if row in (DEFAULT, UNTRAINED) else "",
        "settings": settings_of(row, args),
        "weights": chosen,
        "val": mrr_by_group(reports["val"]),
        "test": {**mrr_by_group(reports["test"]), **record(graph, reports["test"])},
    }


PARTS = ("val", "test")


def settings_of(row: str, args: argparse.Namespace) -> list[str]:
    """The settings of a row that differ from the recipe; baselines have none."""
    epochs = [f"train.epochs={args.epochs}"] if args.epochs else []
    return [*epochs, *(args.set or [])] if row in (DEFAULT, UNTRAINED) else []


def mrr_by_group(report: LinkReport) -> dict[str, Any]:
    """The MRR of all links and of each group that has any."""
    gains = 1 / report.ranks[ROLLING]
    groups = {"all": np.ones(len(gains), bool), **report.groups}
    return {"mrr": {name: float(gains[of].mean()) for name, of in groups.items() if of.any()}}


def record(graph: EdgeTextGraph, report: LinkReport) -> dict[str, Any]:
    """Ranks, sources and groups of links; a link has a digit: new source 1, new target 2.

    `first` has a 1 for each link whose source had no edge before.
    """
    assert graph.times is not None
    assert report.edges is not None
    starts = np.full(graph.num_nodes, np.iinfo(np.int64).max)
    for ends in (graph.src,) if graph.is_bipartite else (graph.src, graph.dst):
        np.minimum.at(starts, ends, graph.times)
    is_first = graph.times[report.edges] == starts[graph.src[report.edges]]
    new_source, new_target = (report.groups[name].astype(int) for name in ROLLING_GROUPS[:2])
    return {
        "ranks": [int(rank) if rank == int(rank) else rank for rank in report.ranks[ROLLING]],
        "sources": report.queries.tolist() if report.queries is not None else [],
        "groups": "".join(map(str, new_source + 2 * new_target)),
        "first": "".join(map(str, is_first.astype(int))),
    }


def groups_of(recorded: dict[str, Any]) -> dict[str, NDArray[np.int64]]:
    """The positions of all links and of those of each group."""
    digits = np.array([*recorded["groups"]]).astype(int)
    chosen = [digits >= 0, digits % 2 == 1, digits >= 2, digits == 0]
    names = ["all", *ROLLING_GROUPS]
    if "first" in recorded:  # not in older records
        is_first = np.array([*recorded["first"]]) == "1"
        chosen, names = [*chosen, is_first, ~is_first], [*names, *FIRST_GROUPS]
    return {name: np.flatnonzero(of) for name, of in zip(names, chosen, strict=True)}


def run_all(graph: EdgeTextGraph, args: argparse.Namespace) -> list[dict[str, Any]]:
    """All rows; those without a seed once. Baselines, which ignore `--backbone`, have a folder."""
    name = args.network.name
    ours = args.results / f"{name}-{Path(args.backbone).name.replace(':', '-')}"
    records = []
    for row in args.rows:
        folder = ours if row in (DEFAULT, UNTRAINED) else args.results / name
        for seed in args.seeds if row == DEFAULT else args.seeds[:1]:
            path = folder / f"{row}-{seed}.json"
            if not path.exists():
                folder.mkdir(parents=True, exist_ok=True)
                text = json.dumps(run_row(graph, row, seed, args), separators=(",", ":"))
                write_atomic(path, text + "\n")
            records.append(json.loads(path.read_text()))
            if records[-1].get("settings", []) != settings_of(row, args):
                raise SystemExit(f"{path} has different settings; choose another --results")
            mrr = {part: records[-1][part]["mrr"]["all"] for part in PARTS}
            print(f"{row:20} {seed} val {mrr['val']:.4f} test {mrr['test']:.4f}", flush=True)
    return records


def compare(records: Sequence[dict[str, Any]]) -> list[str]:
    """`default`, the mean of its seeds, with the baselines that validation picks, by group.

    One baseline is picked on all validation links, another on those of the group.
    """
    if len({each["row"] in (DEFAULT, UNTRAINED) for each in records}) < 2:
        return ["nothing to compare: one of `default` or `untrained` and a baseline are needed"]
    ours_row = DEFAULT if any(each["row"] == DEFAULT for each in records) else UNTRAINED
    own = [each["test"] for each in records if each["row"] == ours_row]
    baselines = [each for each in records if each["row"] not in (DEFAULT, UNTRAINED)]
    ours = np.mean(1 / np.array([each["ranks"] for each in own]), axis=0)
    sources, overall = np.array(own[0]["sources"]), _picked(baselines, "all")
    lines = [f"picked on validation: {overall['row']}"]
    for name, rows in groups_of(own[0]).items():
        for baseline in {
            each["row"]: each for each in (overall, _picked(baselines, name))
        }.values():
            if not len(rows):
                continue
            theirs = 1 / np.array(baseline["test"]["ranks"])
            found = ratio(ours[rows], theirs[rows], sources[rows])
            low, high = found["interval"]
            shown = f"{found['ratio']:.3f} ({low:.3f} to {high:.3f})"
            means = f"{found['ours']:.4f} {found['baseline']:.4f}"
            lines.append(f"{name:15} {baseline['row']:18} {found['links']:6,} {means} {shown}")
    return lines


def _picked(baselines: Sequence[dict[str, Any]], group: str) -> dict[str, Any]:
    """The baseline with the best validation MRR in a group; overall, if it is not recorded."""
    name = group if all(group in each["val"]["mrr"] for each in baselines) else "all"
    return max(baselines, key=lambda each: each["val"]["mrr"][name])


def ratio(ours: Floats, theirs: Floats, sources: NDArray[Any]) -> dict[str, Any]:
    """Mean gain of a row over that of another, with a paired 95% interval over sources."""
    found = compare_paired(ours, theirs, 0, groups=sources).difference
    mean = float(theirs.mean())
    return {
        "links": len(ours),
        "ours": float(ours.mean()),
        "baseline": mean,
        "ratio": float(ours.mean()) / mean,
        "interval": [1 + found.low / mean, 1 + found.high / mean],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", type=Path, required=True)
    parser.add_argument("--split", default="link")
    parser.add_argument("--backbone", default="minilm")
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 43, 44])
    parser.add_argument("--epochs", type=int, help="by default those of the recipe")
    parser.add_argument("--set", nargs="+", help="settings of `default`: train.frozen_layers=0")
    parser.add_argument("--rows", nargs="+", default=[DEFAULT, *sorted(ROLLING_BASELINES)])
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    graph = EdgeTextGraph.open(args.network)
    print("\n".join(compare(run_all(graph, args))))


if __name__ == "__main__":
    main()
