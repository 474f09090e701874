"""One run of a plan: train or fit, score, and leave what tables are made of.

python -m edgeformers.experiments.worker PLAN.json NUMBER  # as a process of its own
"""

import gc
import json
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import torch

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.errors import EdgeformersError
from edgeformers.estimators import EdgeClassifier
from edgeformers.estimators.base import write_results
from edgeformers.evaluation.metrics import SMALLER_IS_BETTER
from edgeformers.experiments.folders import frozen_reading, simple_claim
from edgeformers.experiments.plan import SPLITS, Plan, Run
from edgeformers.experiments.scoring import (
    Scored,
    score_classifier,
    score_edge_baseline,
    score_link_baseline,
    score_predictor,
)
from edgeformers.files import write_atomic
from edgeformers.inference.saved_model import remove_model
from edgeformers.registry import EDGE_BASELINES, LINK_BASELINES
from edgeformers.runs import MODEL, RECORD, fit_run, network_fingerprint
from edgeformers.training.checkpoint import remove_checkpoints
from edgeformers.training.initialization import choose_device
from edgeformers.training.runlog import LOG, read_log

OUTCOME = "outcome.json"  # how long a run took, where, and what it chose by itself


def attempt(plan: Plan, run: Run, graph: EdgeTextGraph, *, show: bool) -> str | None:
    """Do a run; what goes wrong is noted beside its folder and given back as a sentence."""
    run.path.parent.mkdir(parents=True, exist_ok=True)
    run.failure.unlink(missing_ok=True)
    try:
        do_run(plan, run, graph, show=show)
        return None
    except Exception as error:  # one run must not end the others, whatever it stumbled over
        sentence = _sentence(error)
        write_atomic(run.failure, sentence + "\n")
        with run.log.open("a", encoding="utf-8") as file:
            traceback.print_exc(file=file)
        return sentence
    finally:
        free_memory()


def do_run(plan: Plan, run: Run, graph: EdgeTextGraph, *, show: bool) -> None:
    """Train to the end from wherever it stands, score both parts; a run that is done is left."""
    if plan.is_done(run):
        return
    started = time.perf_counter()
    if run.kind == "simple":
        scored, chosen = _fit_simple(run, graph)
    elif run.kind == "trial":
        scored, chosen = _try_settings(plan, run, graph, show), {}
    else:
        scored, chosen = _train(plan, run, graph, show), {}
    scored.write_examples(run.path)
    device = torch.device("cpu") if run.kind == "simple" else choose_device(plan.device)
    outcome = {
        "seconds": time.perf_counter() - started,
        "device": device_name(device),
        "chosen": chosen,
    }
    write_atomic(run.path / OUTCOME, json.dumps(outcome, indent=1) + "\n")
    write_results(run.path, scored.results)  # last: it says that the run is finished
    remove_checkpoints(run.path / "checkpoints")  # it will not go on from there
    if run.kind == "trial" or not plan.keep_models:
        remove_model(run.path / MODEL)


def read_outcome(run: Run) -> dict[str, Any]:
    """What a finished run says of itself."""
    path = run.path / OUTCOME
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return found


def device_name(device: torch.device) -> str:
    """NVIDIA H200, or cpu."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _sentence(error: Exception) -> str:
    """The error as one line; what the library did not foresee is named by its kind."""
    first = next(iter(str(error).strip().splitlines()), "")
    return first if isinstance(error, EdgeformersError) else f"{type(error).__name__}: {first}"


def _train(plan: Plan, run: Run, graph: EdgeTextGraph, show: bool) -> Scored:
    made = fit_run(graph, run.path, run.to_config(), device=plan.device, show=show)
    return score_classifier(made) if isinstance(made, EdgeClassifier) else score_predictor(made)


def _try_settings(plan: Plan, run: Run, graph: EdgeTextGraph, show: bool) -> Scored:
    """Train with settings to be judged on validation alone: the test part is not looked at."""
    made = fit_run(graph, run.path, run.to_config(), device=plan.device, show=show)
    select = made.objective.select
    values = [event[select] for event in read_log(run.path / LOG) if event.get("kind") == "val"]
    best = min(values) if select in SMALLER_IS_BETTER else max(values)
    return Scored(results={"val": {"select": select, "score": best}}, examples=None)


def _fit_simple(run: Run, graph: EdgeTextGraph) -> tuple[Scored, dict[str, Any]]:
    """A simple baseline, which chooses its settings on validation by itself."""
    run.path.mkdir(parents=True, exist_ok=True)
    claim = simple_claim(run, network_fingerprint(graph))
    write_atomic(run.path / RECORD, json.dumps(claim, indent=1) + "\n")
    made, split = fit_simple(run, graph), _own_split(run, graph)
    trials = [{"setting": _plain(t.setting), "score": t.score} for t in getattr(made, "trials", [])]
    chosen = {"setting": _plain(getattr(made, "setting", {})), "trials": trials}
    is_edge = run.task == "edge-classification"
    score: Any = score_edge_baseline if is_edge else score_link_baseline
    return score(made, graph, split, run.seed), chosen


def fit_simple(run: Run, graph: EdgeTextGraph) -> Any:
    """The baseline of a row, fitted; what reads frozen text reads as the other rows do."""
    makers = EDGE_BASELINES if run.task == "edge-classification" else LINK_BASELINES
    made = makers[run.model](seed=run.seed, **frozen_reading(run))
    return made.fit(graph, _own_split(run, graph))


def _own_split(run: Run, graph: EdgeTextGraph) -> str:
    """The split named, the task's own, or the only one; as the estimators choose theirs."""
    named, own = run.to_config().data.split, SPLITS[run.task]
    only = next(iter(graph.splits)) if len(graph.splits) == 1 else own
    return named or (own if own in graph.splits else only)


def _plain(value: Any) -> Any:
    """Settings as JSON can hold them."""
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value.item() if hasattr(value, "item") else value


def free_memory() -> None:
    """Give back what a model took, on the device too."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def main(plan_file: str, number: str) -> int:
    """The run of a plan that has this number; 1 where it failed."""
    plan = Plan.read(Path(plan_file))
    run = plan.runs[int(number)]
    sentence = attempt(plan, run, EdgeTextGraph.open(plan.network), show=True)
    if sentence is not None:
        sys.stderr.write(f"error: {sentence}\n")
    return 0 if sentence is None else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
