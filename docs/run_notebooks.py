"""Run the notebooks and save them with their outputs: python docs/run_notebooks.py [NAME ...]."""

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parent / "notebooks"


def run(notebook: Path, folder: Path) -> nbformat.NotebookNode:
    """The notebook with the outputs of a run in a folder; the first error is raised."""
    node = nbformat.read(notebook, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(node, timeout=600, kernel_name="python3", resources=resources).execute()
    for cell in node.cells:
        cell.metadata.pop("execution", None)  # times of a run
    return node


def main() -> None:
    """Run all notebooks, or those that are named."""
    for notebook in sorted(NOTEBOOKS.glob("*.ipynb")):
        if not sys.argv[1:] or notebook.stem in sys.argv[1:]:
            with tempfile.TemporaryDirectory() as folder:
                nbformat.write(run(notebook, Path(folder)), notebook)


if __name__ == "__main__":
    main()
