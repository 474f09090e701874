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
    "hub",
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
    "export",
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


#: What takes long to import; the help and the package itself need none of it.
HEAVY = (
    "torch transformers numba scipy sklearn pandas polars pyarrow duckdb jinja2 matplotlib numpy"
)


@pytest.mark.parametrize(
    "program",
    [
        "import edgeformers",
        "import edgeformers; dir(edgeformers)",
        "import sys; sys.argv[1:] = ['--help']; from edgeformers.cli import run; run()",
        "import sys; sys.argv[1:] = ['train', '--help']; from edgeformers.cli import run; run()",
    ],
)
def test_the_package_and_its_help_import_nothing_heavy(program):
    check = f"import atexit, sys; heavy = {HEAVY.split()}\n" + (
        "atexit.register(lambda: print(*(m for m in heavy if m in sys.modules), file=sys.stderr))\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", check + program], capture_output=True, text=True, check=True
    )
    assert answer.stderr.strip() == ""


def test_loading_a_model_does_not_import_the_compiler_of_torch():
    program = (
        "import sys, edgeformers.runs\n"
        "from edgeformers.nn.encoder import EncoderConfig, TextEncoder\n"
        "from edgeformers.nn.meta_device import on_meta_device\n"
        "config = EncoderConfig(vocab_size=9, width=8, heads=2, layers=1, ffn_width=8)\n"
        "with on_meta_device(): TextEncoder(config)\n"
        "heavy = 'torch._dynamo sympy transformers sklearn scipy numba pandas duckdb jinja2 rich'\n"
        "print(*(name for name in heavy.split() if name in sys.modules))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == ""
