"""Imports go one way, and what only preparing needs is not imported by training."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "edgeformers"

#: Each part of the package and the parts it may import; itself is always allowed.
ALLOWED = {
    "errors": set(),
    "offline": {"errors"},
    "config": {"errors"},
    "metrics": {"errors"},
    "nn": {"errors", "offline"},
    "data": {"errors", "offline", "nn"},
    "models": {"errors", "data", "nn"},
    "evaluation": {"errors", "data", "metrics"},
    "tasks": {"errors", "data", "nn", "evaluation", "metrics"},
    "train": {
        "errors",
        "offline",
        "config",
        "data",
        "nn",
        "models",
        "tasks",
        "evaluation",
        "metrics",
    },
    "report": {"errors", "data"},
}
DRIVERS = {
    "__init__",
    "estimators",
    "embed",
    "bulk",
    "runs",
    "quickstart",
    "pictures",
    "experiments",
    "overview",
    "cli",
}


def imports(path: Path) -> set[str]:
    """The parts of the package that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("edgeformers."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("edgeformers.")}
    return found


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_imports_follow_the_arrows_and_nothing_else(path):
    part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if part in DRIVERS:
        return
    assert imports(path) <= ALLOWED[part] | {part}


def test_training_imports_nothing_that_only_preparing_needs():
    program = (
        "import sys, edgeformers, edgeformers.data.graph, edgeformers.data.loader, "
        "edgeformers.models.edgeformer_n, edgeformers.train.trainer\n"
        "print([m for m in ('duckdb', 'pandas', 'polars', 'networkx', 'torch_geometric', "
        "'transformers', 'sklearn', 'faiss') if m in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"


def test_importing_the_package_is_quick_and_silent():
    program = "import sys, edgeformers; print('torch' in sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert (answer.stdout.strip(), answer.stderr) == ("False", "")
