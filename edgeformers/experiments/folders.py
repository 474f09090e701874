"""Whose a run folder is: a finished run counts only for the settings and the network it was for."""

import json
from typing import Any

from edgeformers.config import matches_file
from edgeformers.errors import InputError
from edgeformers.experiments.plan import Plan, Run
from edgeformers.registry import BACKBONE_BASELINES
from edgeformers.runs import CONFIG, RECORD
from edgeformers.training.initialization import SCRATCH


def check_folders(plan: Plan) -> None:
    """Refuse a plan that would take runs of other settings or another network for its own."""
    for run in plan.runs:
        if not _is_own(run, plan.fingerprint):
            raise InputError(
                f"{run.path} is a run of other settings or on another network; choose another "
                "folder with -o, or remove it"
            )


def simple_claim(run: Run, fingerprint: str) -> dict[str, Any]:
    """What run.json says of a simple baseline's folder."""
    return {
        "task": run.task,
        "model": run.model,
        "split": run.to_config().data.split,
        "network_fingerprint": fingerprint,
        **frozen_reading(run),
    }


def frozen_reading(run: Run) -> dict[str, Any]:
    """How a baseline that reads frozen texts reads them: as the other rows of its table do.

    With their backbone, and as many tokens of a text. An untrained backbone would say nothing;
    the usual one is read instead.
    """
    if run.model not in BACKBONE_BASELINES:
        return {}
    config = run.to_config()
    named, length = config.model.backbone, {"max_tokens": config.data.max_tokens}
    return length if named.startswith(SCRATCH) else {"backbone": named, **length}


def _is_own(run: Run, fingerprint: str) -> bool:
    record, config = run.path / RECORD, run.path / CONFIG
    noted = json.loads(record.read_text(encoding="utf-8")) if record.is_file() else None
    if run.kind == "simple":
        return noted in (None, simple_claim(run, fingerprint))
    if noted is not None and noted.get("network_fingerprint") != fingerprint:
        return False
    return not config.is_file() or matches_file(config, run.to_config())
