r"""Training from yesterday's run (`--from`) next to training from scratch, over simulated nights.

python -m benchmarks.nightly reviews.parquet --source user --target film --time date
python -m benchmarks.nightly Magazine_Subscriptions_5.json.gz --source reviewerID --target asin \
  --text reviewText --time unixReviewTime --backbone scratch:2x32 --seeds 42

The edges are put in time order. Night i trains on the first `start + i * step` of them, the last
tenth of which is for validation, and is tested on the edges until the next night: new pairs of
nodes that both have training edges, ranked among all targets (`full`) and as of each moment
(`rolling`, where only these links arrive). `scratch` trains anew every night; `warm` trains the
first night from scratch, and then from the night before. Times are those of `fit`, which includes
the ensemble and saving. Every finished training is recorded in the working folder, and not
repeated.
"""

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.machine import machine, print_table
from edgeformers import LinkPredictor, prepare
from edgeformers.config import parse_setting
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.prepare import prepare_simulated
from edgeformers.data.types import Floats
from edgeformers.evaluation import LinkReport, compare_paired
from edgeformers.evaluation.report import ROLLING
from edgeformers.evaluation.rolling import RollingLinks
from edgeformers.files import write_atomic
from edgeformers.inference.rolling import RollingPredictor

RESULTS = Path(__file__).parent / "results" / "nightly"
ARMS = ("scratch", "warm")
PROTOCOLS = ("full", "rolling")
VALIDATION = 0.1  # of the edges known on a night: the last ones


def read_table(options: argparse.Namespace) -> pd.DataFrame:
    """The edges in time order."""
    path = str(options.table)
    rows = pd.read_parquet(path) if path.endswith(".parquet") else _read_text(path)
    names = {getattr(options, name): name for name in ("source", "target", "text", "time")}
    rows = rows.rename(columns=names)[list(names.values())].dropna()
    rows = rows.drop_duplicates()
    rows["time"] = pd.to_datetime(rows["time"], unit="s" if rows["time"].dtype == "int64" else None)
    rows = rows.sort_values("time", kind="stable").reset_index(drop=True)
    if options.sources:
        chosen = rows["source"].drop_duplicates().sample(options.sources, random_state=0)
        rows = rows[rows["source"].isin(chosen)].reset_index(drop=True)
    return rows


def _read_text(path: str) -> pd.DataFrame:
    return pd.read_json(path, lines=True) if ".json" in path else pd.read_csv(path)


def prepare_night(rows: pd.DataFrame, night: int, options: argparse.Namespace) -> EdgeTextGraph:
    """The network of a night, with the links until the next one as its test part."""
    out = options.folder / "networks" / str(night)
    if not out.exists():
        ends = [int(len(rows) * (options.start + (night + i) * options.step)) for i in (0, 1)]
        known, future = rows[: ends[0]].copy(), rows[ends[0] : ends[1]].copy()
        is_train = np.arange(len(known)) < len(known) * (1 - VALIDATION)
        known["split"] = np.where(is_train, "train", "val")
        train = known[is_train]
        pairs = set(zip(known["source"], known["target"], strict=True))
        is_new = [p not in pairs for p in zip(future["source"], future["target"], strict=True)]
        is_known = future["source"].isin(train["source"]) & future["target"].isin(train["target"])
        future = future[is_known & np.array(is_new)].drop_duplicates(["source", "target"])
        table = pd.concat([known, future.assign(split="test")])
        table["time"] = table["time"].dt.strftime("%Y-%m-%d %H:%M:%S")
        columns = {name: name for name in table.columns}
        is_scratch = options.backbone.startswith("scratch")
        tokenizer = "train:8000" if is_scratch else options.backbone
        prepare(table, out, **columns, tokenizer=tokenizer, progress=False)
    return EdgeTextGraph.open(out)


def train(graph: EdgeTextGraph, arm: str, night: int, seed: int, options: Any) -> dict[str, Any]:
    """Train one night of one arm, and rank its test links."""
    run = options.folder / "runs" / f"{arm}-{seed}-{night}"
    shutil.rmtree(run, ignore_errors=True)
    settings = dict(map(parse_setting, options.set or ()))
    if arm == "warm" and night:
        before = options.folder / "runs" / f"warm-{seed}-{night - 1}"
        more = dict(map(parse_setting, options.set_warm or ()))
        model = LinkPredictor(start_from=before, settings=more, show=False, device=options.device)
    else:
        settings["train.seed"] = seed
        model = LinkPredictor(
            options.backbone,
            recipe=options.recipe,
            settings=settings,
            show=False,
            device=options.device,
        )
    wall, cpu = time.perf_counter(), time.process_time()
    fitted = model.fit(graph, run=run).fitted_
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    reports = {part: model.report(part, protocols=["full"]) for part in ("val", "test")}
    rolling = RollingLinks(graph, fitted.network.split).rank(RollingPredictor(fitted))
    assert model.progress is not None
    return {
        "seconds": wall,
        "cpu_seconds": cpu,
        "epochs": model.progress.epoch,
        "steps": model.progress.step,
        "edges": len(fitted.network.parts["train"]),
        "val": reports["val"].flat()["full/mrr"],
        "full": ranked_links(graph, reports["test"], "full"),
        "rolling": ranked_links(graph, rolling, ROLLING),
    }


def ranked_links(graph: EdgeTextGraph, report: LinkReport, protocol: str) -> dict[str, Any]:
    """The rank of each link, and the id of its source."""
    queries = np.empty(0, np.int64) if report.queries is None else report.queries
    return {"ranks": report.ranks[protocol].tolist(), "sources": graph.node_index.ids_of(queries)}


def run_nights(rows: pd.DataFrame, seed: int, options: argparse.Namespace) -> None:
    """All nights of a seed; both arms of a night one after the other."""
    for night in range(options.nights + 1):
        for arm in ARMS if night else ARMS[1:]:  # the first one is where `warm` starts
            path = record_path(arm, seed, night, options)
            if not path.exists():
                graph = prepare_night(rows, night, options)
                found = train(graph, arm, night, seed, options)
                write_atomic(path, json.dumps(found))
                mrr = [np.mean(1 / np.array(found[each]["ranks"])) for each in PROTOCOLS]
                print(
                    f"seed {seed} night {night:2} {arm:8} val {found['val']:.4f} "
                    f"test {mrr[0]:.4f} rolling {mrr[1]:.4f} "
                    f"{found['seconds']:.1f} s, CPU {found['cpu_seconds']:.1f} s",
                    flush=True,
                )


def record_path(arm: str, seed: int, night: int, options: argparse.Namespace) -> Path:
    folder: Path = options.folder / "records"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{arm}-{seed}-{night}.json"


def summarize(options: argparse.Namespace) -> dict[str, Any]:
    """Quality and time of both arms over all nights and seeds, with paired intervals."""
    records = {
        (arm, night): [
            json.loads(record_path(arm, seed, night, options).read_text()) for seed in options.seeds
        ]
        for arm in ARMS
        for night in range(1, options.nights + 1)
    }
    nights = [_summarize_night(records, night) for night in range(1, options.nights + 1)]
    total = {name: sum(each[name] for each in nights) for name in nights[0] if "seconds" in name}
    return {
        "table": Path(options.table).name,
        "backbone": options.backbone,
        "recipe": options.recipe,
        "settings": options.set or [],
        "warm_settings": options.set_warm or [],
        "sources": options.sources,
        "start": options.start,
        "step": options.step,
        "seeds": options.seeds,
        "machine": machine(),
        **{protocol: _compare(records, options.nights, protocol) for protocol in PROTOCOLS},
        "time_ratio": total["warm_seconds"] / total["scratch_seconds"],
        "cpu_ratio": total["warm_cpu_seconds"] / total["scratch_cpu_seconds"],
        "nights": nights,
    }


Records = dict[tuple[str, int], list[dict[str, Any]]]  # (arm, night) -> one per seed


def _summarize_night(records: Records, night: int) -> dict[str, Any]:
    summary: dict[str, Any] = {"night": night, "links": len(_gains(records["warm", night], "full"))}
    for arm in ARMS:
        own = records[arm, night]
        summary[f"{arm}_mrr"] = float(_gains(own, "full").mean())
        summary[f"{arm}_rolling"] = float(_gains(own, "rolling").mean())
        for name in ("val", "seconds", "cpu_seconds", "steps"):
            summary[f"{arm}_{name}"] = float(np.mean([each[name] for each in own]))
    return summary


def _gains(records: Sequence[dict[str, Any]], protocol: str) -> Floats:
    """The reciprocal rank of each link, the mean of all seeds."""
    gains: Floats = np.mean([1 / np.array(each[protocol]["ranks"]) for each in records], axis=0)
    return gains


def _compare(records: Records, nights: int, protocol: str) -> dict[str, Any]:
    """The links of all nights under both arms, with a paired interval over sources."""
    warm, scratch = (
        np.concatenate([_gains(records[arm, night + 1], protocol) for night in range(nights)])
        for arm in reversed(ARMS)
    )
    sources = [
        str(source)
        for night in range(nights)
        for source in records["warm", night + 1][0][protocol]["sources"]
    ]
    compared = compare_paired(warm, scratch, 0, groups=np.unique(sources, return_inverse=True)[1])
    return {
        "links": len(warm),
        "warm_mrr": float(warm.mean()),
        "scratch_mrr": float(scratch.mean()),
        "difference": [float(compared.difference.low), float(compared.difference.high)],
        "p_value": float(compared.p_value),
    }


def show(summary: dict[str, Any]) -> None:
    rows = [
        [str(each["night"]), str(each["links"])]
        + [f"{each[f'{arm}_{name}']:.4f}" for name in ("mrr", "rolling") for arm in ARMS]
        + [f"{each[f'{arm}_cpu_seconds']:.1f}" for arm in ARMS]
        for each in summary["nights"]
    ]
    columns = [f"{name} {arm}" for name in ("full", "rolling", "CPU s") for arm in ARMS]
    title = f"{summary['table']}, {summary['backbone']}, seeds {summary['seeds']}"
    print_table(title, ["night", "links", *columns], rows)
    for protocol in PROTOCOLS:
        found = summary[protocol]
        low, high = found["difference"]
        print(
            f"\n{protocol}: warm {found['warm_mrr']:.4f}, scratch {found['scratch_mrr']:.4f}, "
            f"difference {low:+.4f} to {high:+.4f} (95%, by source)"
        )
    print(f"wall time {summary['time_ratio']:.3f}, CPU time {summary['cpu_ratio']:.3f} of scratch")


def warm_up(device: str | None) -> None:
    """Import and compile everything before the first measured training."""
    with tempfile.TemporaryDirectory() as folder:
        graph = prepare_simulated(Path(folder) / "network", num_edges=300)
        LinkPredictor("scratch:2x32", recipe="fast", show=False, device=device).fit(graph)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("table", type=Path)
    for name in ("source", "target", "text", "time"):
        parser.add_argument(f"--{name}", default=name, help="name of the column")
    parser.add_argument("--sources", type=int, help="use the edges of so many sources only")
    parser.add_argument("--backbone", default="minilm")
    parser.add_argument("--recipe", default="default")
    parser.add_argument("--set", nargs="+", help="settings of both, such as train.epochs=3")
    parser.add_argument("--set-warm", nargs="+", help="settings of the warm start")
    parser.add_argument("--nights", type=int, default=10)
    parser.add_argument("--start", type=float, default=0.5, help="share of edges before night 0")
    parser.add_argument("--step", type=float, default=0.04, help="share of edges of a night")
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 43, 44])
    parser.add_argument("--device")
    parser.add_argument("--folder", type=Path, help="working folder; by default in /tmp")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    name = f"{options.table.name.partition('.')[0]}-{Path(options.backbone).name}".replace(":", "-")
    options.folder = options.folder or Path(tempfile.gettempdir()) / f"nightly-{name}"
    rows = read_table(options)
    warm_up(options.device)
    for seed in options.seeds:
        run_nights(rows, seed, options)
    summary = summarize(options)
    options.results.mkdir(parents=True, exist_ok=True)
    write_atomic(options.results / f"{name}.json", json.dumps(summary, indent=1) + "\n")
    show(summary)


if __name__ == "__main__":
    main()
