"""Measure the code base: size, long functions, duplicate names, and functions a row passes through.

    python -m benchmarks.codebase            # static measures of this checkout
    python -m benchmarks.codebase --trace    # also count the functions called (needs the package)

Run on two commits, the output is a before/after table.
"""

import argparse
import ast
import collections
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def sources(folder: str) -> dict[Path, str]:
    return {path: path.read_text() for path in sorted((ROOT / folder).rglob("*.py"))}


def functions(tree: ast.AST) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def num_parameters(function: ast.FunctionDef) -> int:
    arguments = function.args
    return len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)


def duplicate_names(trees: dict[Path, ast.Module]) -> list[str]:
    """Public classes and functions that more than one module defines."""
    homes = collections.defaultdict(set)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                homes[node.name].add(path)
    return sorted(name for name, paths in homes.items() if len(paths) > 1)


def static_measures() -> None:
    library = sources("edgeformers")
    trees = {path: ast.parse(text) for path, text in library.items()}
    every = [function for tree in trees.values() for function in functions(tree)]
    long = [f for f in every if f.end_lineno - f.lineno + 1 > 40]
    twice = duplicate_names(trees)
    text = "\n".join(library.values())
    print(f"library lines              {sum(t.count(chr(10)) for t in library.values()):,}")
    print(f"library modules            {len(library)}")
    print(
        f"test lines                 {sum(t.count(chr(10)) for t in sources('tests').values()):,}"
    )
    print(f"functions over 40 lines    {len(long)}")
    print(f"parameters of the widest   {max(map(num_parameters, every))}")
    print(f"public names twice         {len(twice)}: {', '.join(twice)}")
    print(f"uses of Any                {len(re.findall(r'[^a-zA-Z_]Any[^a-zA-Z_]', text))}")
    print(f"uses of cast(              {len(re.findall(r'[^a-zA-Z_.]cast[(]', text))}")
    packages = collections.Counter()
    for path, source in library.items():
        parts = path.relative_to(ROOT / "edgeformers").parts
        packages[parts[0] if len(parts) > 1 else "(top)"] += source.count("\n")
    for name, lines in sorted(packages.items()):
        print(f"  {name:<20} {lines:>7,}")


class Calls:
    """Counts the distinct functions and modules of the package that are called."""

    def __enter__(self) -> "Calls":
        self.codes = set()
        sys.setprofile(self._note)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)

    def _note(self, frame, event, argument) -> None:
        if event == "call" and f"{ROOT}/edgeformers/" in frame.f_code.co_filename:
            name = frame.f_code.co_name
            if not name.startswith("<") and name not in ("__init__", "__post_init__"):
                self.codes.add(frame.f_code)

    def __str__(self) -> str:
        return f"{len(self.codes)} in {len({c.co_filename for c in self.codes})} modules"


def traced() -> None:
    """Distinct functions called to prepare a CSV, to train on it and to recommend from it."""
    import torch

    torch.set_num_threads(1)
    import edgeformers

    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "edges.csv"
        rows = [f"u{i % 9},i{i % 7},text number {i}" for i in range(80)]
        table.write_text("source,target,text\n" + "\n".join(rows) + "\n")
        with Calls() as preparing:
            edgeformers.prepare(str(table), Path(folder) / "network")
        small = {"train.epochs": 1, "links.ensemble": False, "train.patience": None}
        try:
            predictor = edgeformers.LinkPredictor("scratch:2x16", settings=small, show=False)
        except edgeformers.errors.ConfigError:  # before the redesign
            small["links.beside"] = small.pop("links.ensemble")
            predictor = edgeformers.LinkPredictor("scratch:2x16", settings=small, show=False)
        with Calls() as training:
            predictor.fit(Path(folder) / "network")
        with Calls() as recommending:
            predictor.recommend("u1", k=2)
    print(f"functions: prepare {preparing}; train {training}; recommend {recommending}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--trace", action="store_true")
    arguments = parser.parse_args()
    static_measures()
    if arguments.trace:
        traced()
