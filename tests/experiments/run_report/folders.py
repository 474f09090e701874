"""Run folders as `train` and `reproduce` leave them."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

from edgeformers.estimators import run_config

NETWORK = "f" * 64


def edge_results(macro, half=0.02):
    """What results.json says of the test part of edges."""
    return {
        "macro_f1": macro,
        "micro_f1": macro + 0.05,
        "accuracy": macro + 0.05,
        "macro_f1_interval": [macro - half, macro + half],
        "micro_f1_interval": [macro + 0.05 - half, macro + 0.05 + half],
    }


def link_results(mrr, groups=None):
    """The same of links, under two protocols."""
    found = {"paper/mrr": mrr / 2, "full/mrr": mrr, "full/hit@10": 2 * mrr}
    found["full/mrr_interval"] = [mrr - 0.01, mrr + 0.01]
    return found | ({"groups": {"full": groups}} if groups else {})


def groups(**values):
    """Groups of pairs: name -> (pairs, MRR)."""
    names = {"cold": "cold", "few": "degree 1-3", "some": "degree 4-10", "many": "degree 11+"}
    return {
        name: {"pairs": values[short][0], "metrics": {"mrr": values[short][1]}}
        for short, name in names.items()
    }


def write(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values), encoding="utf-8")


def trained(path, task, results=None, *, seed=0, network=NETWORK, val=(), seconds=1.0, **settings):
    """A run of a model; `val` are validation scores by epoch, without results it is unfinished."""
    given = {name.replace("__", "."): value for name, value in settings.items()}
    config = run_config(task, "fast", settings={"train.seed": seed, **given})
    record = {"task": task, "network": "/gone/films", "network_fingerprint": network}
    write(path / "run.json", record)
    (path / "config.toml").write_text(config.to_toml(), encoding="utf-8")
    metric = "macro_f1" if task == "edge-classification" else "full/mrr"
    lines = []
    for epoch, value in enumerate(val):
        speed = {"kind": "speed", "step": epoch, "examples_per_second": 1.0, "seconds": seconds}
        score = {"kind": "val", "step": epoch, "epoch": epoch, metric: value}
        lines += [json.dumps(speed), json.dumps(score)]
    (path / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    if results is not None:
        write(path / "results.json", {"test": results})
    return path


def simple(path, task, model, results, *, network=NETWORK, seconds=2.0, **chosen):
    """A run of a simple baseline."""
    record = {"task": task, "model": model, "split": "", "network_fingerprint": network}
    write(path / "run.json", record)
    outcome = {"seconds": seconds, "device": "cpu", "chosen": {"setting": chosen}}
    write(path / "outcome.json", outcome)
    write(path / "results.json", {"test": results})
    return path


def predictions(path, labels, predicted):
    """predictions.parquet of a run: edges 0, 1, ..."""
    columns = {"edge": range(len(labels)), "label": labels, "predicted": predicted}
    table = pa.table({name: pa.array(list(values), pa.int32()) for name, values in columns.items()})
    parts = pa.array(["test"] * len(labels)).dictionary_encode()
    pq.write_table(table.append_column("part", parts), path / "predictions.parquet")
