"""How long until Edgeformer-E is as good as the released recipe ends up, on the same device.

python -m benchmarks.time_to_quality --network FOLDER --backbone minilm
python -m benchmarks.time_to_quality --network FOLDER --backbone scratch:2x32 --epochs 3
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.machine import machine, print_table, synchronize
from benchmarks.reference import pad_edges, padded_twin
from benchmarks.workload import MAX_TOKENS
from edgeformers.data.graph import EdgeTextGraph
from edgeformers.estimators import EdgeClassifier
from edgeformers.training.edge_objective import EdgeObjective

WARM_UP, TIMED = 5, 30  # steps of the reference


class GoodEnough(Exception):
    """The quality asked for was reached."""


class Timed(EdgeClassifier):
    """Notes when each validation was done; ends where `enough` was reached."""

    enough = float("inf")

    def make_objective(self, *given: Any, **columns: Any) -> EdgeObjective:
        self.started, self.reached = time.perf_counter(), []
        objective = super().make_objective(*given, **columns)
        evaluate, metric = objective.evaluate, objective.select

        def noted(part: str) -> dict[str, float]:
            found = evaluate(part)
            self.reached.append((time.perf_counter() - self.started, found[metric]))
            seconds, score = self.reached[-1]
            print(f"{self.config.recipe}: {seconds:.1f} s, {metric} {score:.4f}", flush=True)
            if found[metric] >= self.enough:
                raise GoodEnough
            return found

        objective.evaluate = noted  # type: ignore[method-assign]
        return objective


def reference_seconds(made: EdgeClassifier, device: torch.device) -> float:
    """A training step of the padded reference in float32, on batches of the same edges."""
    twin = padded_twin(made.model).to(device).train()  # type: ignore[arg-type]
    fitted, objective = made.fitted_, EdgeObjective(made.fitted_)
    head = torch.nn.Linear(fitted.width, fitted.head.num_classes).to(device)
    parameters = [*twin.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-5, weight_decay=1e-3)
    batches = objective.batches(0)[: WARM_UP + TIMED]
    for at, ids in enumerate(batches):
        if at == WARM_UP:
            synchronize(device)
            started = time.perf_counter()
        batch = objective.loader.edges(ids)
        padded = pad_edges(batch, MAX_TOKENS).to(device)
        assert batch.label is not None
        optimizer.zero_grad()
        found = head(twin(padded))
        torch.nn.functional.cross_entropy(found, batch.label.to(device)).backward()
        optimizer.step()
    synchronize(device)
    return (time.perf_counter() - started) / (len(batches) - WARM_UP)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", type=Path, required=True)
    parser.add_argument("--backbone", default="minilm")
    parser.add_argument("--device", default=None)
    parser.add_argument("--epochs", type=int, default=None, help="of the released recipe, at most")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    graph = EdgeTextGraph.open(asked.network)
    settings: dict[str, Any] = {"model.fidelity": "released"}
    settings |= {} if asked.epochs is None else {"train.epochs": asked.epochs}
    given: dict[str, Any] = {"device": asked.device, "show": False}
    released = Timed(asked.backbone, recipe="paper", settings=settings, **given).fit(graph)
    best = max(score for _, score in released.reached)
    epochs = 1 + [score for _, score in released.reached].index(best)
    updates = epochs * len(EdgeObjective(released.fitted_).batches(0))
    test = released.evaluate(intervals=False)["macro_f1"]
    step = reference_seconds(released, released.device)
    ours = Timed(asked.backbone, **given)
    ours.enough = best
    try:
        ours.fit(graph)
        reached = None
    except GoodEnough:
        reached = ours.reached[-1][0]
    found = {
        "machine": machine(),
        "network": str(graph),
        "released recipe": {"validation": best, "test": test, "epochs": epochs},
        "padded reference": {"ms of a step": 1000 * step, "seconds": updates * step},
        "recipe paper, packed": {"seconds": released.reached[epochs - 1][0]},
        "recipe default": {"seconds": reached, "validation": ours.reached[-1][1]},
    }
    rows = [
        ["padded reference, steps alone", f"{updates * step:.1f}", f"{best:.4f}", str(epochs)],
        ["recipe paper", f"{released.reached[epochs - 1][0]:.1f}", f"{best:.4f}", str(epochs)],
        [
            "recipe default",
            "not reached" if reached is None else f"{reached:.1f}",
            f"{ours.reached[-1][1]:.4f}",
            str(len(ours.reached)),
        ],
    ]
    print(machine())
    print_table(
        "Until validation Macro-F1 is what the released recipe ends with",
        ["", "seconds", "validation", "epochs"],
        rows,
    )
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / "time_to_quality.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
