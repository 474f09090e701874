"""The model card: the README.md of a saved model, from its config.json and the files of its run."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from edgeformers.config import flatten
from edgeformers.files import write_atomic

CARD, CONFIG, RESULTS, VERDICT = "README.md", "config.json", "results.json", "verdict.json"
GENERATED = "<!-- Written by edgeformers, which updates it. Remove this line to edit it. -->"
LOAD = """\
```python
import edgeformers

model = edgeformers.load("path/to/this/folder")
{usage}
```
"""
USAGE = {
    "edge-classification": 'model.predict([("a source", "a target", "the text between them")])',
    "link-prediction": 'model.recommend(edges=[("a target", "a text about it")], k=5)',
}
LOAD_WITHOUT_TASK = """\
```python
from edgeformers.inference.saved_model import load_model

saved = load_model("path/to/this/folder")
saved.model, saved.tokenizer, saved.nodes, saved.label_names
```
"""
NETWORK = """
It reads the network it was trained on from its old path; if that has moved, pass `network=`."""
LIMITATIONS = {
    "edge-classification": "An edge of a node that was not in training is classified by its text.",
    "link-prediction": "A score ranks the targets of one source. It is not a probability, and "
    "scores of two sources cannot be compared.",
}
NOT_TESTED = "It was not tested whether the graph and the text help (`--ablate-inputs`)."


def write_model_card(folder: Path, results: Mapping[str, Any] | None = None) -> None:
    """Write the card of a saved model again, unless it has been edited.

    It has the results and the verdict of the run that the folder is in, if any; `results` are
    those that are not written yet.
    """
    card = folder / CARD
    if card.is_file() and GENERATED in card.read_text(encoding="utf-8"):
        facts = json.loads((folder / CONFIG).read_bytes())
        write_atomic(card, model_card(folder, facts, results))


def model_card(
    folder: Path,
    facts: Mapping[str, Any],
    new_results: Mapping[str, Any] | None = None,
    *,
    usage: str | None = None,
    library: str = "edgeformers",
) -> str:
    """The card of a model with the contents of config.json, saved in a folder.

    `usage` shows how another library loads it, if it was exported for one.
    """
    extra = facts["extra"]
    run = folder.parent if folder.name == "model" and "task" in extra else None
    task, network = extra.get("task", ""), extra.get("network_facts", {})
    written = _read(run, RESULTS) if run else {}
    results = {**extra.get("results", {}), **written, **(new_results or {})}
    verdict = _read(run, VERDICT) if run else {}
    title = [run.resolve().name if run else folder.resolve().name, _task_and_network(task, network)]
    tags = f"[edgeformers, {facts['model']}, text-attributed-graph]"
    if usage is None:
        usage = LOAD.format(usage=USAGE[task]) + NETWORK if task else LOAD_WITHOUT_TASK
    sections = {
        "Loading it": usage,
        "Data": _data(network, facts),
        "Results": "\n\n".join(_results(results)),
        "Do the graph and the text help?": _verdict(verdict),
        "Settings": _settings(extra.get("config", {})),
        "Limitations": "\n".join(f"- {line}" for line in _limitations(facts, verdict)),
    }
    return "\n\n".join(
        [
            f"---\nlibrary_name: {library}\ntags: {tags}\n---",
            "# " + ": ".join(filter(None, title)),
            _architecture(facts) + _parent(extra.get("config", {})),
            *(f"## {name}\n\n{text.strip()}" for name, text in sections.items() if text),
            GENERATED + "\n",
        ]
    )


def _read(run: Path, name: str) -> dict[str, Any]:
    """A JSON file of a run; empty if it is missing or damaged."""
    with suppress(OSError, ValueError):
        values = json.loads((run / name).read_bytes())
        return values if isinstance(values, dict) else {}
    return {}


def _task_and_network(task: str, network: Mapping[str, Any]) -> str:
    where = f" on {network['name']}" if network else ""
    return task.replace("-", " ") + where


def _architecture(facts: Mapping[str, Any]) -> str:
    encoder, nodes = facts["encoder_config"], facts["model_config"]["num_nodes"]
    if "words" in encoder:
        reads = f"bags of {encoder['words']:,} words"
    elif "family" not in encoder:
        reads = "no text"
    else:
        reads = f"a {encoder['family']} encoder of {encoder['layers']} layers"
    return f"{facts['model']} with {nodes:,} nodes on {reads}, {encoder['width']} wide."


def _parent(config: Mapping[str, Any]) -> str:
    """The run that training started from."""
    folder = config.get("train", {}).get("start_from", "")
    return f" Its training started from the run `{Path(folder).name}`." if folder else ""


def _data(network: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    labels = ", ".join(facts["label_names"])
    rows = [[name.capitalize(), value] for name, value in network.items() if name != "parts"]
    rows += [[f"Examples in {part}", count] for part, count in network.get("parts", {}).items()]
    rows += [["Labels", labels]] if labels else []
    return _table(["", ""], rows)


def _results(results: Mapping[str, Any]) -> Iterator[str]:
    """A table for each part: metrics of edges, or protocols of links by metrics."""
    for part, values in results.items():
        if not isinstance(values, Mapping):
            continue
        scores = {name: v for name, v in values.items() if isinstance(v, int | float)}
        protocols = list(dict.fromkeys(n.partition("/")[0] for n in scores if "/" in n))
        yield f"On the {part} part, with 95% confidence intervals:"
        if not protocols:
            rows = [[name, value, format_interval(values, name)] for name, value in scores.items()]
            yield _table(["Metric", "Value", "Interval"], rows)
            continue
        metrics = [n.partition("/")[2] for n in scores if n.startswith(f"{protocols[0]}/")]
        rows = []
        for name in protocols:
            row = [scores.get(f"{name}/{metric}") for metric in metrics]
            rows.append([name, *row, format_interval(values, f"{name}/mrr")])
        yield _table(["Protocol", *metrics, "Interval of mrr"], rows)
    if any("full/mrr" in values for values in results.values() if isinstance(values, Mapping)):
        yield "`full` ranks a target among all targets; other protocols rank it among fewer."


def _verdict(verdict: Mapping[str, Any]) -> str:
    """The answers of a stored verdict, with the gains over baselines and over hidden inputs."""
    answers = verdict.get("answers", [])
    rows = [
        [answer["question"], answer["finding"], name, f"{gain:+.4f}"]
        for answer in answers
        for name, gain in (answer.get("gains") or {answer["alternative"]: answer["gain"]}).items()
    ]
    header = ["Input", "Finding", "Compared with", f"Gain in {verdict.get('metric', '')}"]
    return _table(header, rows) if rows else ""


def _settings(config: Mapping[str, Any]) -> str:
    """All settings but those of the other task."""
    other = {"edge-classification": "links.", "link-prediction": "edges."}.get(
        config.get("task", ""), "?"
    )
    settings = {name: v for name, v in flatten(config).items() if not name.startswith(other)}
    return _table(["Setting", "Value"], settings.items()) if settings else ""


def _limitations(facts: Mapping[str, Any], verdict: Mapping[str, Any]) -> Iterator[str]:
    extra = facts["extra"]
    if "task" not in extra:
        return
    yield "It was trained and evaluated on one split of one network; elsewhere it may do worse."
    yield f"Texts are cut at {extra['config']['data']['max_tokens']} tokens."
    yield LIMITATIONS[extra["task"]]
    if not verdict:
        yield NOT_TESTED
    if "network" in facts:
        yield "The folder `network` contains the training edges with their texts."


def format_interval(results: Mapping[str, Any], name: str) -> str:
    """The 95% interval of a metric; empty if there is none, as with a single source."""
    low, high = results.get(f"{name}_interval") or (None, None)
    is_known = low is not None and high is not None and math.isfinite(low) and math.isfinite(high)
    return f"{low:.4f} to {high:.4f}" if is_known else ""


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [header, ["---"] * len(header), *([_cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "–"
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value))
    if isinstance(value, float):
        text = f"{value:.4f}" if 1e-3 <= abs(value) < 1 else f"{value:g}"
    else:
        text = f"{value:,}" if type(value) is int else str(value)
    return text.replace("|", "\\|").replace("\n", " ")
