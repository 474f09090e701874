"""Imports point one way, and training needs nothing that only preparing or reporting needs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "edgeformers"

#: From the bottom up: a part of the package may import the parts before it, and itself.
ORDER = [
    "errors",
    "aliases",
    "decode",
    "progress",
    "file_errors",
    "locks",
    "files",
    "minilm",
    "threads",
    "config",
    "nn",
    "data",
    "distributed",
    "sharded_nodes",
    "evaluation",
    "models",
    "baselines",
    "registry",
    "inference",
    "training",
    "estimators",
    "runs",
    "report",
    "experiments",
    "serve",
    "cli",
]


def imported_parts(path: Path) -> set[str]:
    """The parts of the package that a file imports, wherever in the file."""
    parts = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "edgeformers":
            parts |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("edgeformers."):
            parts.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            parts |= {a.name.split(".")[1] for a in node.names if a.name.startswith("edgeformers.")}
    return parts - {"__version__"}


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_imports_point_down(path):
    part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if part == "__init__":  # the public names, each imported when it is first used
        return
    below = ORDER[: ORDER.index(part) + 1]
    assert {other for other in imported_parts(path) if other not in below} == set()


def test_every_part_of_the_package_has_its_place():
    parts = {path.stem if path.is_file() else path.name for path in PACKAGE.iterdir()}
    assert parts - {"__init__", "__pycache__", "py"} == set(ORDER)


def test_training_imports_nothing_that_only_preparing_needs():
    program = (
        "import sys, edgeformers, edgeformers.data.graph, edgeformers.data.loader, "
        "edgeformers.models.edgeformer_n, edgeformers.training.trainer\n"
        "print([m for m in ('duckdb', 'pandas', 'polars', 'networkx', 'torch_geometric', "
        "'transformers', 'sklearn', 'faiss', 'pydantic', 'jinja2', 'rich', 'matplotlib') "
        "if m in sys.modules])"
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
