"""Compare what two checkouts do after training links: ensemble, evaluation and recommendations.

    git worktree add ../old COMMIT
    python -m benchmarks.post_training ../old . --network NETWORK
    python -m benchmarks.post_training . --device cuda

Every checkout runs in a process of its own with an untrained model, to whose score the ensemble
gives little or no weight. Printed are the wall-clock and CPU seconds of each task, the peak memory
of the process, and `full` MRR on test, which is mainly that of LightGCN, ALS and EASE. By default,
a network of the size of Amazon-Apps is simulated; its links do not depend on the length of texts.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

APPS = {"num_edges": 750_000, "num_sources": 87_000, "num_targets": 13_200, "seed": 5}
SETTINGS = {"data.source_neighbors": [2], "data.target_neighbors": [2], "data.max_tokens": 16}
RECOMMENDED = 10  # targets for each source


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkouts", type=Path, nargs="+")
    parser.add_argument("--network", type=Path)
    parser.add_argument("--backbone", default="scratch:2x32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="a .json file for the record")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options)))
        return
    with tempfile.TemporaryDirectory() as folder:
        options.network = options.network or simulate(Path(folder) / "network")
        records = {str(path): run(path.resolve(), options) for path in options.checkouts}
    if options.out:
        options.out.write_text(json.dumps(records, indent=2) + "\n", "utf-8")


def simulate(path: Path) -> Path:
    """A network with the links of the Apps-sized simulation and short texts."""
    import edgeformers
    from edgeformers.data.simulate import SimulationConfig

    simulation = edgeformers.simulate(SimulationConfig(**APPS, mean_words=10))
    edgeformers.prepare(simulation.table, path, progress=False)
    return path


def run(checkout: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The record of a process that imports the package from `checkout`."""
    command = [sys.executable, __file__, str(checkout), "--child", "--device", options.device]
    command += ["--network", str(options.network.resolve()), "--backbone", options.backbone]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(
        command, env=environment, cwd=checkout, stdout=subprocess.PIPE, text=True, check=True
    )
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(checkout, json.dumps(record, indent=2), flush=True)
    return record


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of each task, in this process."""
    from dataclasses import replace

    from edgeformers import LinkPredictor
    from edgeformers.inference.batch_inference import recommend_all
    from edgeformers.inference.ensemble import fit_ensemble

    record: dict[str, Any] = {}

    def timed(task: str, work: Callable[[], Any]) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        record[task] = [time.perf_counter() - wall, time.process_time() - cpu]
        print(task, record[task], file=sys.stderr, flush=True)
        return result

    predictor = LinkPredictor(
        options.backbone, settings=SETTINGS, device=options.device, show=False
    )
    fitted = predictor.make_objective(str(options.network)).fitted
    timed("encode all nodes", lambda: fitted.embed_nodes())
    ensemble = timed("fit_ensemble, nodes encoded once", lambda: fit_ensemble(fitted))
    fitted = replace(fitted, ensemble=ensemble)
    results = timed("evaluate test, nodes encoded once", lambda: fitted.evaluate("test"))
    predictor = LinkPredictor.from_fitted(fitted)
    timed(
        "recommend 10 to every source",
        lambda: sum(map(len, recommend_all(predictor, RECOMMENDED, show=False))),
    )
    record["weights"] = ensemble.weights.tolist()
    record["components"] = [component.name for component in ensemble.components]
    record["test"] = {name: value for name, value in results.items() if name.endswith("/mrr")}
    record["peak GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return record


if __name__ == "__main__":
    main()
