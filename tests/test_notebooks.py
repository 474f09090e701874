"""The notebooks run to the end, and are saved with the outputs of a run."""

import re
from pathlib import Path

import nbformat
import pytest

from tests.test_site import load_script

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))


def code_cells(notebook):
    cells = nbformat.read(notebook, as_version=4).cells
    return [cell for cell in cells if cell.cell_type == "code"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_is_saved_with_its_outputs_and_a_picture(notebook):
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not any(output.get("name") == "stderr" for output in outputs)
    assert not re.search(r"/tmp/|/home/|/work/", notebook.read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Jupyter and its event loop
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_runs(notebook, tmp_path):
    node = load_script("run_notebooks").run(notebook, tmp_path)
    assert [cell.source for cell in node.cells if cell.cell_type == "code"] == [
        cell.source for cell in code_cells(notebook)
    ]


def test_there_are_three_notebooks():
    assert len(NOTEBOOKS) == 3
