"""The documentation site: every page is in the navigation, and what is generated is there."""

import importlib.util
import sys
import tomllib
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from edgeformers.config import RunConfig

ROOT = Path(__file__).parents[1]


def load_script(name):
    """A script of docs as a module."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """All pages as they are given to Zensical."""
    folder = tmp_path_factory.mktemp("site") / "docs"
    load_script("build").stage(folder)
    return folder


def pages(entry):
    """The files below an entry of the navigation."""
    if isinstance(entry, str):
        return [entry]
    below = entry.values() if isinstance(entry, dict) else entry
    return [page for part in below for page in pages(part)]


def test_every_page_is_in_the_navigation_once(site):
    config = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    listed = pages(config["project"]["nav"])
    written = {page.relative_to(site).as_posix() for page in site.rglob("*.md")}
    assert len(listed) == len(set(listed))
    assert set(listed) == written


def test_the_settings_reference_has_every_setting_with_its_default(site):
    page = (site / "settings_reference.md").read_text(encoding="utf-8")
    for section in fields(RunConfig):
        if is_dataclass(section.type):
            for setting in fields(section.type):
                assert f"| `{section.name}.{setting.name}` |" in page
    assert "| `train.lr` | `float` | `5e-05` | learning rate of the backbone |" in page
    assert "| `data.source_neighbors` | `list[int]` | `[8]` | sampled per stratum |" in page


def test_the_result_tables_are_filled_in(site):
    page = (site / "results_tables.md").read_text(encoding="utf-8")
    assert page.count("\n|---") > 50


def test_the_figures_are_those_that_the_script_draws(tmp_path, monkeypatch):
    script = load_script("make_figures")
    monkeypatch.setattr(script, "FIGURES", tmp_path)
    script.main()
    drawn = {file.name: file.read_text() for file in tmp_path.glob("*.svg")}
    assert len(drawn) == 3
    for name, text in drawn.items():
        assert (ROOT / "docs" / "figures" / name).read_text() == text
