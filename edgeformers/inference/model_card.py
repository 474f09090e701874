"""The README.md of a saved model: metadata for model hubs, data, metrics and settings."""

import json
from collections.abc import Mapping
from typing import Any

from edgeformers.errors import InputError, suggest

SECTIONS = ("title", "license", "data", "split", "protocol", "metrics", "settings", "notes")

_USAGE = """\
## Loading it

```python
from edgeformers.inference.saved_model import load_model

saved = load_model("path/to/this/folder")
saved.model, saved.tokenizer, saved.node_names, saved.label_names
```"""


def model_card(name: str, facts: Mapping[str, Any], card: Mapping[str, Any]) -> str:
    """A model card in Markdown; `facts` describe the model and `card` has further sections."""
    for section in card.keys() - set(SECTIONS):
        raise InputError(f"a model card has no section '{section}'; {suggest(section, SECTIONS)}")
    for section in {"metrics", "settings"} & card.keys():
        if not isinstance(card[section], Mapping):
            raise InputError(f"{section} must map names to values (got {card[section]!r})")
    model, nodes = facts["model"], facts["model_config"]["num_nodes"]
    header = ["library_name: edgeformers", f"tags: [edgeformers, {model}, text-attributed-graph]"]
    if "license" in card:
        license_name = json.dumps(str(card["license"]), ensure_ascii=False)  # also a YAML string
        header.append(f"license: {license_name}")
    blocks = [
        "\n".join(["---", *header, "---"]),
        f"# {card.get('title', name)}",
        f"{model} with {nodes:,} nodes on {_encoder(facts['encoder_config'])}.",
    ]
    blocks += [
        _section(name, str(card[name])) for name in ("data", "split", "protocol") if name in card
    ]
    for section, column in (("metrics", "Metric"), ("settings", "Setting")):
        if section in card:
            rows = [f"| {key} | {_cell(value)} |" for key, value in card[section].items()]
            table = "\n".join([f"| {column} | Value |", "|---|---|", *rows])
            blocks.append(_section(section, table))
    if facts["label_names"]:
        blocks.append(_section("labels", ", ".join(map(str, facts["label_names"]))))
    if "notes" in card:
        blocks.append(_section("notes", str(card["notes"])))
    return "\n\n".join([*blocks, _USAGE]) + "\n"


def _section(name: str, text: str) -> str:
    return f"## {name.capitalize()}\n\n{text}"


def _encoder(config: Mapping[str, Any]) -> str:
    if "words" in config:
        return f"bags of {config['words']:,} words, {config['width']} wide"
    if "family" not in config:
        return f"no text, {config['width']} wide"
    return f"a {config['family']} encoder of {config['layers']} layers, {config['width']} wide"


def _cell(value: Any) -> str:
    text = f"{value:.4f}" if isinstance(value, float) and abs(value) >= 1e-3 else str(value)
    return text.replace("|", "\\|").replace("\n", " ")
