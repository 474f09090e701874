"""The networks that runs were made on: their names, and their data cards while they are there."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgeformers.data.card.card import DataCard
from edgeformers.data.card.describe import describe
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.errors import EdgeformersError, FormatError
from edgeformers.experiments.plan import PLAN
from edgeformers.experiments.run_report.read import RunRecord
from edgeformers.runs import network_fingerprint

CARD = "card.json"


@dataclass(frozen=True, kw_only=True)
class KnownNetwork:
    """A network by its name, with its card, or with a sentence that says why there is none."""

    name: str
    card: DataCard | None = None
    note: str = ""


def find_networks(
    runs: Sequence[RunRecord], experiments: Iterable[Path]
) -> dict[str, KnownNetwork]:
    """The network of every fingerprint, by whichever run or plan knows where it was."""
    plans = _plans(experiments)
    paths = {plan.get("fingerprint", ""): plan.get("network") for plan in plans}
    paths |= {run.network: run.network_path for run in runs if run.network_path}
    names = {plan.get("fingerprint", ""): (plan.get("about") or {}).get("name") for plan in plans}
    found = {
        key: _look(key, paths.get(key), names.get(key))
        for key in dict.fromkeys(run.network for run in runs)
    }
    named = [one.name for one in found.values()]
    return {
        key: replace(one, name=f"{one.name} ({key[:6]})") if named.count(one.name) > 1 else one
        for key, one in found.items()
    }


def _plans(experiments: Iterable[Path]) -> list[dict[str, Any]]:
    """What plan.json of each experiment says; one that is damaged says nothing."""
    found = []
    for folder in experiments:
        try:
            plan = json.loads((folder / PLAN).read_text(encoding="utf-8"))
        except ValueError:
            continue
        found += [plan] if isinstance(plan, dict) else []
    return found


def _look(fingerprint: str, path: str | None, name: str | None) -> KnownNetwork:
    known = name or (Path(path).name if path else "") or "a network without a name"
    if path is None or not Path(path).is_dir():
        why = f"{known} is no longer where it was when the runs were made"
        return KnownNetwork(name=known, note=f"No data card: {why}.")
    try:
        graph = EdgeTextGraph.open(path)
        if network_fingerprint(graph) != fingerprint:
            why = f"{path} is by now another network than the runs were made on"
            return KnownNetwork(name=known, note=f"No data card: {why}.")
        card = _card(graph)
    except EdgeformersError as error:
        return KnownNetwork(name=known, note=f"No data card of {known}: {error}")
    return KnownNetwork(name=card.name, card=card)


def _card(graph: EdgeTextGraph) -> DataCard:
    """The card beside the network, or a new one where there is none that can be read."""
    try:
        return DataCard.from_json((graph.path / CARD).read_text(encoding="utf-8"))
    except (OSError, FormatError):
        return describe(graph)
