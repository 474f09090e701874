"""Damaged and hostile folders of models, networks and runs, most of them with valid checksums."""

import atexit
import json
import os
import random
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numba  # noqa: F401  # which training imports; here, before the clock starts
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import torch._dynamo  # likewise
from safetensors.torch import load_file, save_file

from edgeformers import load
from edgeformers.config import make_config
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.prepare import prepare
from edgeformers.data.simulate import simulate
from edgeformers.data.storage import fingerprint, fingerprint_folder, read_record, write_record
from edgeformers.errors import FormatError
from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.experiments.run_report.read import FinishedRun, read_run
from edgeformers.report.comparison import SkippedRun
from edgeformers.runs import train_run
from tests.torture.outcome import Case, Outcome, cases_in_turn, observe_forked

Random = random.Random

MAX_SECONDS = 2.0  # of CPU time until an error
MAX_BYTES = 1 << 30
SETTINGS = {
    "model.node_width": 8,
    "data.max_tokens": 16,
    "data.source_neighbors": [2],
    "data.target_neighbors": [2],
    "train.epochs": 1,
    "train.checkpoint_every": 2,
}
DEEP = "[" * 50_000 + "]" * 50_000
VALUES: tuple[Any, ...] = (
    *(10**7, 10**9, 2**31, 2**63, 10**18, 10**400, -1, 0, -(10**9), 1.5, 1e308, float("nan")),
    *(None, True, "x", "", "\0", "../../etc/passwd", "9" * 400, [], {}, [[]], [None], {"a": 1}),
    *(
        [10**9],
        ["x"] * 5_000,
        "x" * 100_000,
        {"__tensor__": "x"},
        {str(i): i for i in range(3_000)},
    ),
)
TEXTS = (
    *(
        b"",
        b"null",
        b"[]",
        b"3",
        b"{",
        b"\xff\xfe{\0}\0",
        b"\0" * 100,
        b'{"format": NaN}',
        b"\xef\xbb\xbf{}",
    ),
    *(DEEP.encode(), b'{"a":' * 20_000, b"9" * 100_000, b"[" + b"[]," * 3_000_000 + b"[]]"),
    *(b'{"a": "' + b"x" * 50_000_000 + b'"}', b"-", b'"\\ud800"', b"Infinity", b"{}{}", b"\x1b[2J"),
)


def cases(seed: int = 0) -> Iterator[Case]:
    """Endless hostile folders of all kinds in turn; the same for the same seed."""
    return cases_in_turn(KINDS, seed)


def run(case: Case) -> Outcome:
    """Use a changed copy of a good folder; only an unchanged result may go without an error."""
    folders, expected = _good_folders()
    rng = Random(f"{case.seed}-{case.number}")
    name, change, use = KINDS[case.kind]
    name = rng.choice(("edges", "links")) if name == "model" else name
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / name
        shutil.copytree(folders / name, folder)
        what = change(rng, folder)

        def act() -> str | None:
            answer = use(folder)
            is_damage = case.kind.startswith("damaged")
            return "other results" if is_damage and answer != expected[name] else None

        outcome = observe_forked(act, max_seconds=60.0, max_bytes=MAX_BYTES)
    outcome = replace(outcome, detail=f"{what}: {outcome.detail}")
    if outcome.kind == "rejected" and outcome.seconds > MAX_SECONDS:
        return replace(outcome, kind="crash", detail=f"{outcome.seconds:.1f} s; {outcome.detail}")
    return outcome


@cache
def _good_folders() -> tuple[Path, dict[str, Any]]:
    """Two models with their networks, a network and a run, and what they give.

    They are made in another process, so that this one has no threads when it forks.
    """
    folder = Path(tempfile.mkdtemp(prefix="edgeformers-torture-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)

    def make() -> None:
        frame = simulate(num_edges=300, seed=0).table.to_pandas()
        for name, kind in (("edges", EdgeClassifier), ("links", LinkPredictor)):
            columns = {"label": "label", "time": "time"}
            estimator = kind("scratch:2x16", recipe="fast", settings=SETTINGS, show=False)
            estimator.fit(frame, **columns).save(folder / name)
        network = prepare("simulated", folder / "network", num_edges=300, progress=False)
        for task in ("edge-classification", "link-prediction"):
            train_run(network, folder / "run" / task, _config(task), show=False)
        answers = {name: use(folder / name) for name, use in USES.items()}
        (folder / "expected.json").write_text(json.dumps(answers))

    made = observe_forked(make, max_seconds=300.0, max_bytes=8 << 30, timeout=300.0)
    assert made.kind == "accepted", made.detail
    return folder, json.loads((folder / "expected.json").read_bytes())


def _config(task: Any) -> Any:
    settings = {**SETTINGS, "model.backbone": "scratch:2x16"}
    settings |= {"edges.ensemble": False, "links.ensemble": False}
    return make_config(task, "fast", settings=settings)


def _use_edges(folder: Path) -> Any:
    model = load(folder)
    names = model.fitted_.nodes.ids_of([0, len(model.fitted_.nodes) - 1])
    return model.predict_proba([(*names, "My tent is fine.")] * 2).tolist()


def _use_links(folder: Path) -> Any:
    model = load(folder)
    source = model.fitted_.nodes.ids_of([0])[0]
    return [answer.node for answer in model.recommend(source, k=3, explain=1)]


def _use_model(folder: Path) -> Any:
    return USES[folder.name](folder)


def _use_network(folder: Path) -> Any:
    run = folder.parent / "run-on-network"
    task = "edge-classification" if os.getpid() % 2 else "link-prediction"
    results = train_run(folder, run / task, _config(task), show=False)
    graph = EdgeTextGraph.open(folder)
    graph.texts([0, graph.num_edges - 1])
    return sorted(results)


def _use_run(folder: Path) -> Any:
    """Resume training, then read both runs as `report` does."""
    network = _good_folders()[0] / "network"
    read = []
    for task in ("edge-classification", "link-prediction"):
        train_run(network, folder / task, _config(task), show=False)
        run = read_run(folder / task)
        if isinstance(run, SkippedRun):
            raise FormatError(run.reason)  # which the report names instead of the run
        if not isinstance(run, FinishedRun):
            raise AssertionError(f"a finished run is not read: {run}")
        read.append(run.results)
    return read


USES: dict[str, Callable[[Path], Any]] = {
    "edges": _use_edges,
    "links": _use_links,
}


def _files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.name not in HARMLESS)


HARMLESS = ("README.md", "card.html", "card.json")  # never read when a model is used


def _damage(rng: Random, folder: Path) -> str:
    """Damage a file and leave its checksum as it was."""
    path = rng.choice(_files(folder))
    content = path.read_bytes()
    kind = rng.choice(("flip", "cut", "empty", "missing", "longer", "folder", "link", "swap"))
    if kind == "missing":
        path.unlink()
    elif kind in ("folder", "link"):
        path.unlink()
        path.mkdir() if kind == "folder" else path.symlink_to("/dev/zero")
    elif kind == "swap":
        path.write_bytes(rng.choice(_files(folder)).read_bytes() + b"\0")
    else:
        place = rng.randrange(len(content))
        flipped = bytes([content[place] ^ (1 << rng.randrange(8))])
        path.write_bytes(
            {
                "flip": content[:place] + flipped + content[place + 1 :],
                "cut": content[:place],
                "empty": b"",
                "longer": content + rng.randbytes(9),
            }[kind]
        )
    return f"{kind} {path.relative_to(folder)}"


def _renew_model(folder: Path) -> None:
    """Write the checksums of an attacker: they fit the changed files."""
    path = folder / "config.json"
    facts = json.loads(path.read_bytes())
    names = [
        p.name for p in folder.iterdir() if p.is_file() and p.name not in (path.name, "README.md")
    ]
    facts["files"] = {name: fingerprint(folder / name) for name in sorted(names)}
    if (folder / "network").is_dir():
        facts["network"] = fingerprint(folder / "network" / "network.json")
    path.write_text(json.dumps(facts))


def _renew_network(folder: Path) -> None:
    values = read_record(folder / "network.json")
    del values["checksum"]
    prints = fingerprint_folder(folder)
    values["files"] = {name: prints[name] for name in values["files"] if name in prints}
    write_record(folder / "network.json", values)
    for tokens in folder.glob("tokens/*"):
        record = read_record(tokens / "tokens.json")
        del record["checksum"]
        prints = fingerprint_folder(tokens)
        record["files"] = {name: prints[name] for name in record["files"] if name in prints}
        write_record(tokens / "tokens.json", record)


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in nested lists and dicts, containers included."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(item, (*path, key))


def _replace_leaf(rng: Random, values: Any, skip: tuple[str, ...] = ()) -> str:
    """Replace, drop or add a value somewhere in nested values."""
    paths = [path for path in _leaves(values) if path[0] not in skip]
    shallow = [path for path in paths if len(path) <= 2]
    *path, last = rng.choice(shallow if rng.random() < 0.5 else paths)
    place = values
    for key in path:
        place = place[key]
    if rng.random() < 0.15:
        del place[last]
        return f"without {(*path, last)}"
    value = rng.choice(VALUES)
    if isinstance(place, dict) and rng.random() < 0.1:
        last = "more"
    place[last] = value
    return f"{(*path, last)} = {str(value)[:40]!r}"


def _model_setting(rng: Random, folder: Path) -> str:
    path = folder / "config.json"
    facts = json.loads(path.read_bytes())
    what = _replace_leaf(rng, facts, () if rng.random() < 0.1 else ("files", "network"))
    path.write_text(json.dumps(facts))
    return what


def _model_size(rng: Random, folder: Path) -> str:
    """A size in the settings of the model, its encoder or its run, as the trial tried it."""
    path = folder / "config.json"
    facts = json.loads(path.read_bytes())
    sections = (facts["model_config"], facts["encoder_config"], *facts["extra"]["config"].values())
    sizes = [
        (section, name)
        for section in sections
        if isinstance(section, dict)
        for name, value in section.items()
        if isinstance(value, int) and not isinstance(value, bool) and name != "seed"
    ]
    section, name = rng.choice(sizes)
    section[name] = rng.choice((10**5, 10**7, 10**9, 2**31, 2**62, 10**30, -7))
    path.write_text(json.dumps(facts))
    return f"{name} = {section[name]}"


def _json_text(rng: Random, folder: Path) -> str:
    path = rng.choice([path for path in _files(folder) if path.suffix in (".json", ".toml")])
    content, text = path.read_bytes(), rng.choice(TEXTS)
    if rng.random() < 0.3:
        place = rng.randrange(len(content))
        text = (
            content[:place]
            + rng.choice((b"", b"\0", b"[" * 5_000, b"NaN", b"1e999"))
            + content[place:]
        )
    path.write_bytes(text)
    if path.name == "tokenizer.json" and path.parent == folder:
        _renew_model(folder)
    return f"{path.relative_to(folder)} is {text[:20]!r}"


def _change_tensors(rng: Random, path: Path) -> str:
    tensors = load_file(path)
    name = rng.choice(sorted(tensors))
    tensor = tensors[name]
    kind = rng.choice(
        ("drop", "rename", "add", "longer", "shorter", "dtype", "flat", "empty", "many")
    )
    if kind in ("drop", "rename"):
        tensors["renamed"] = tensors.pop(name)
        if kind == "drop":
            del tensors["renamed"]
    elif kind == "add":
        tensors[rng.choice(("more", "ensemble.als.gram", "ensemble.x.y", "ensemble.group"))] = (
            tensor
        )
    elif kind == "many":
        tensors |= {f"more.{i}": torch.zeros(1) for i in range(3_000)}
    else:
        changed = {
            "longer": lambda: torch.cat([tensor.reshape(-1), tensor.reshape(-1)]),
            "shorter": lambda: tensor.reshape(-1)[:-1],
            "dtype": lambda: tensor.to(
                rng.choice((torch.int64, torch.float64, torch.uint8, torch.bool))
            ),
            "flat": lambda: tensor.reshape(1, -1, 1),
            "empty": lambda: tensor.new_zeros(0),
        }
        tensors[name] = changed[kind]()
    save_file({k: v.contiguous().clone() for k, v in tensors.items()}, path)
    return f"{path.name}: {kind} {name}"


def _change_header(rng: Random, path: Path) -> str:
    """Claims in the header of a safetensors file that the data does not have."""
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    name = rng.choice([key for key in header if key != "__metadata__"])
    kind = rng.choice(("shape", "offsets", "dtype", "size", "text", "sparse"))
    if kind == "size":
        path.write_bytes(struct.pack("<Q", rng.choice((2**63, 10**9, 0, size + 1))) + content[8:])
        return f"{path.name}: header of another size"
    if kind == "shape":
        header[name]["shape"] = rng.choice(([10**12], [2**40, 2**40], [0], [], [-1], ["x"], None))
    elif kind == "offsets":
        header[name]["data_offsets"] = rng.choice(([0, 10**12], [10**12, 0], [-1, 4], [0], "x"))
    elif kind == "dtype":
        header[name]["dtype"] = rng.choice(("F8", "I64", "BOOL", "x", None, 3))
    elif kind == "sparse":  # a consistent claim of four terabytes, which cost no disk space
        end = max(v["data_offsets"][1] for k, v in header.items() if k != "__metadata__")
        header["more"] = {"dtype": "F32", "shape": [2**40], "data_offsets": [end, end + 2**42]}
    text = rng.choice(TEXTS) if kind == "text" else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + size :])
    if kind == "sparse":
        os.truncate(path, path.stat().st_size + 2**42)
    return f"{path.name}: {kind} of {name}"


def _model_tensors(rng: Random, folder: Path) -> str:
    path = folder / rng.choice(("model.safetensors", "head.safetensors"))
    what = _change_tensors(rng, path) if rng.random() < 0.6 else _change_header(rng, path)
    if path.stat().st_size < 1 << 30:
        _renew_model(folder)
    else:  # hashing it would take longer than the case
        facts = json.loads((folder / "config.json").read_bytes())
        facts["files"][path.name] = {"bytes": path.stat().st_size, "sha256": "0" * 64}
        (folder / "config.json").write_text(json.dumps(facts))
    return what


def _tokenizer(rng: Random, folder: Path) -> str:
    path = folder / "tokenizer.json"
    values = json.loads(path.read_bytes())
    kind = rng.choice(("leaf", "leaf", "leaf", "ids", "size", "kind"))
    what = kind
    if kind == "leaf":
        what = _replace_leaf(rng, values)
    elif kind == "ids":
        vocabulary = values["model"]["vocab"]
        vocabulary[rng.choice(sorted(vocabulary))] = rng.choice((10**6, 2**31, -1, 2**40, "x"))
    elif kind == "size":
        values["model"]["vocab"] |= {f"w{i}": 10**6 + i for i in range(rng.choice((10, 300_000)))}
    else:
        values["model"]["type"] = rng.choice(("BPE", "Unigram", "WordLevel", "WordPiece", "x"))
    path.write_text(json.dumps(values))
    _renew_model(folder)
    return f"tokenizer: {what}"


def _model_nodes(rng: Random, folder: Path) -> str:
    path = folder / "nodes.parquet"
    table = pq.read_table(path)
    tables: dict[str, Callable[[], pa.Table]] = {
        "fewer": lambda: table.slice(1),
        "more": lambda: pa.concat_tables([table, table]),
        "none": lambda: table.slice(0, 0),
        "renamed": lambda: table.rename_columns(["a", "b"]),
        "numbers": lambda: table.set_column(0, "name", pa.array(range(len(table)))),
        "null ids": lambda: table.set_column(0, "name", pa.nulls(len(table), pa.string())),
        "sides": lambda: table.set_column(1, "side", pa.array(["x"] * len(table))),
        "sides in turn": lambda: table.set_column(
            1, "side", pa.array([("target", "source")[i % 2] for i in range(len(table))])
        ),
        "many": lambda: pa.table(
            [pa.repeat("x" * 100, 10**7), pa.nulls(10**7, pa.string())], table.schema.names
        ),
        "long": lambda: table.set_column(0, "name", pa.repeat("x" * 5 * 10**6, len(table))),
    }
    kind = rng.choice(list(tables))
    pq.write_table(tables[kind](), path, compression="zstd")
    _renew_model(folder)
    return f"nodes: {kind}"


def _network_setting(rng: Random, folder: Path) -> str:
    """A value of network.json or tokens.json, with a fitting checksum."""
    path = rng.choice(sorted({folder / "network.json", *folder.glob("tokens/*/tokens.json")}))
    values = read_record(path)
    del values["checksum"]
    sizes = [name for name in ("num_nodes", "num_edges", "num_sources") if name in values]
    if sizes and rng.random() < 0.4:
        name = rng.choice(sizes)
        values[name] = rng.choice((0, 1, values[name] + 1, values[name] - 1, 10**9, 10**18, -5))
        what = f"{name} = {values[name]}"
    else:
        what = _replace_leaf(rng, values)
    write_record(path, values)
    return f"{path.name}: {what}"


def _network_array(rng: Random, folder: Path) -> str:
    path = rng.choice([path for path in _files(folder) if path.suffix == ".npy"])
    array = np.load(path)
    kind = rng.choice(
        ("high", "low", "order", "dtype", "shorter", "longer", "shape", "object", "sparse")
    )
    changed = array.copy()
    place = rng.randrange(len(array))
    if array.dtype == bool or kind in ("shorter", "longer", "shape", "dtype"):
        changed = {
            "shorter": lambda: array[:-1],
            "longer": lambda: np.concatenate([array, array]),
            "shape": lambda: array.reshape(1, -1),
        }.get(kind, lambda: array.astype(rng.choice((np.float64, np.int8, np.complex64, "S3"))))()
    elif kind == "high":
        changed[place] = np.iinfo(array.dtype).max if array.dtype.kind in "iu" else np.inf
    elif kind == "low":
        changed[place] = -1 if array.dtype.kind == "i" else 0
    elif kind == "order":
        changed = array[::-1].copy()
    if kind == "object":
        np.save(path, np.array([{}], object), allow_pickle=True)
    else:
        np.save(path, changed)
    _renew_network(folder)
    if kind == "sparse":  # claims 2^40 rows, which cost no disk space
        with path.open("wb") as file:
            descr = np.lib.format.dtype_to_descr(array.dtype)
            header = {"descr": descr, "fortran_order": False, "shape": (2**40,)}
            np.lib.format.write_array_header_1_0(file, header)
            file.truncate(file.tell() + 2**40 * array.itemsize)
        values = read_record(folder / "network.json")
        del values["checksum"]
        name = path.relative_to(folder).as_posix()
        if name in values["files"]:
            values["files"][name]["bytes"] = path.stat().st_size
        write_record(folder / "network.json", values)
    return f"{path.relative_to(folder)}: {kind}"


def _network_table(rng: Random, folder: Path) -> str:
    path = folder / rng.choice(("texts.parquet", "nodes.parquet", "edges.parquet"))
    table = pq.read_table(path)
    name = rng.choice(table.column_names)
    place = table.column_names.index(name)
    tables: dict[str, Callable[[], pa.Table]] = {
        "fewer": lambda: table.slice(1),
        "more": lambda: pa.concat_tables([table, table]),
        "none": lambda: table.slice(0, 0),
        "dropped": lambda: table.drop_columns([name]),
        "renamed": lambda: table.rename_columns(
            ["x" if c == name else c for c in table.column_names]
        ),
        "numbers": lambda: table.set_column(place, name, pa.array(range(len(table)))),
        "nulls": lambda: table.set_column(
            place, name, pa.nulls(len(table), table.schema.types[place])
        ),
        "bytes": lambda: table.set_column(place, name, pa.array([b"\xff"] * len(table))),
        "many": lambda: pa.table({c: pa.nulls(10**7, pa.string()) for c in table.column_names}),
        "long": lambda: table.set_column(place, name, pa.repeat("x" * 10**5, len(table))),
    }
    kind = rng.choice(list(tables))
    pq.write_table(tables[kind](), path, compression="zstd")
    _renew_network(folder)
    return f"{path.name}: {kind} {name}"


def _run_file(rng: Random, folder: Path) -> str:
    """A file of a run, half of the time one that is not finished yet."""
    run = folder / rng.choice(("edge-classification", "link-prediction"))
    if rng.random() < 0.5:
        (run / "results.json").unlink()
        shutil.rmtree(run / "model")
    path = rng.choice([path for path in _files(run) if path.suffix != ".toml"])
    if path.suffix == ".safetensors":
        what = _change_tensors(rng, path) if rng.random() < 0.6 else _change_header(rng, path)
    elif path.suffix == ".json" and rng.random() < 0.6:
        values = json.loads(path.read_bytes())
        what = _replace_leaf(rng, values)
        path.write_text(json.dumps(values))
    elif path.suffix == ".jsonl":
        lines = path.read_text().splitlines()
        lines[rng.randrange(len(lines))] = rng.choice(
            (*"[]3{", "null", '{"kind": []}', '{"step": "x"}')
        )
        path.write_text("\n".join(lines) + "\n")
        what = "another line"
    else:
        path.write_bytes(text := rng.choice(TEXTS))
        what = f"is {text[:20]!r}"
    return f"{path.relative_to(folder)}: {what}"


Kind = tuple[str, Callable[[Random, Path], str], Callable[[Path], Any]]
KINDS: dict[str, Kind] = {  # the folder, how it is changed, and how it is used
    "damaged model": ("model", _damage, _use_model),
    "size": ("model", _model_size, _use_model),
    "setting": ("model", _model_setting, _use_model),
    "tensors": ("model", _model_tensors, _use_model),
    "json": ("model", _json_text, _use_model),
    "tokenizer": ("model", _tokenizer, _use_model),
    "nodes": ("model", _model_nodes, _use_model),
    "network setting": ("network", _network_setting, _use_network),
    "network array": ("network", _network_array, _use_network),
    "network table": ("network", _network_table, _use_network),
    "network json": ("network", _json_text, _use_network),
    "run file": ("run", _run_file, _use_run),
}
