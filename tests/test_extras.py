"""Every extra can be installed, in versions that are pinned; what it promises is tested elsewhere.

polars: data/readers/test_sources.py; networkx: data/interop/test_networkx.py; tensorboard, wandb,
mlflow: training/test_callbacks.py; serve and explore: serve/; onnx, sentence-transformers: export/.
"""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PINS = dict(
    re.findall(
        r"^([\w.-]+)==([^\s;#]+)", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE
    )
)


def requirements(extra):
    """What an extra needs, with what the extras need that it consists of."""
    for requirement in map(Requirement, EXTRAS[extra]):
        if requirement.name == PROJECT["name"]:
            for other in requirement.extras:
                yield from requirements(other)
        elif requirement.marker is None or requirement.marker.evaluate():
            yield requirement


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_pinned_and_installed_in_a_version_that_it_allows(extra):
    for requirement in requirements(extra):
        if not str(requirement.specifier).startswith("=="):
            assert requirement.specifier.contains(PINS[requirement.name]), requirement
        try:
            assert requirement.specifier.contains(version(requirement.name)), requirement
        except PackageNotFoundError:
            pytest.skip(f"{requirement.name} is not installed")


def test_development_installs_every_extra():
    installed = {requirement.name for requirement in requirements("dev")}
    for extra in EXTRAS:
        assert {requirement.name for requirement in requirements(extra)} <= installed
