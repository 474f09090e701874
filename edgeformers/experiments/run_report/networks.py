"""The networks of runs: their names and, if they still exist, their data cards."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgeformers.data.card.card import DataCard
from edgeformers.data.card.describe import describe
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.errors import EdgeformersError, FormatError
from edgeformers.experiments.plan import PLAN
from edgeformers.experiments.run_report.read import FinishedRun
from edgeformers.files import read_json_object
from edgeformers.inference.fitted import network_fingerprint

CARD = "card.json"


@dataclass(frozen=True, kw_only=True)
class KnownNetwork:
    """A network's name with its card, or a note on why there is none."""

    name: str
    card: DataCard | None = None
    note: str = ""


def find_networks(
    runs: Sequence[FinishedRun], experiments: Iterable[Path]
) -> dict[str, KnownNetwork]:
    """The network of each fingerprint, located by the runs and the plans of experiments."""
    plans = [plan for folder in experiments if (plan := _read_plan(folder / PLAN))]
    paths = {plan.get("fingerprint", ""): plan.get("network") for plan in plans}
    paths |= {run.network: run.network_path for run in runs if run.network_path}
    names = {plan.get("fingerprint", ""): _plan_name(plan) for plan in plans}
    networks = {
        key: _open_network(key, paths.get(key), names.get(key))
        for key in dict.fromkeys(run.network for run in runs)
    }
    used = [network.name for network in networks.values()]
    return {
        key: replace(network, name=f"{network.name} ({key[:6]})")
        if used.count(network.name) > 1
        else network
        for key, network in networks.items()
    }


def _read_plan(path: Path) -> dict[str, Any]:
    """{} for a damaged plan."""
    with suppress(FormatError):
        return read_json_object(path, "remove it")
    return {}


def _plan_name(plan: dict[str, Any]) -> str | None:
    return (plan.get("network_info") or plan.get("about") or {}).get("name")


def _open_network(fingerprint: str, path: str | None, name: str | None) -> KnownNetwork:
    name = name or (Path(path).name if path else "") or "unnamed network"
    if path is None or not Path(path).is_dir():
        return KnownNetwork(name=name, note=f"No data card: {name} is no longer at its old path.")
    try:
        graph = EdgeTextGraph.open(path)
        if network_fingerprint(graph) != fingerprint:
            note = f"No data card: {path} has changed since the runs were made."
            return KnownNetwork(name=name, note=note)
        graph.verify()
        card = _read_card(graph)
    except EdgeformersError as error:
        return KnownNetwork(name=name, note=f"No data card of {name}: {error}")
    return KnownNetwork(name=card.name, card=card)


def _read_card(graph: EdgeTextGraph) -> DataCard:
    """The saved card, or a new one if it is missing or outdated."""
    try:
        return DataCard.from_json((graph.path / CARD).read_text(encoding="utf-8"))
    except (OSError, FormatError):
        return describe(graph)
