"""The API reference names every public function and class, and each says what it is for."""

import re
from importlib import import_module
from inspect import getdoc, isclass, isfunction
from pathlib import Path

import pytest

import edgeformers
from edgeformers import errors, evaluation
from edgeformers.evaluation import metrics

PAGES = Path(__file__).parents[1] / "docs" / "api"
DOCUMENTED = [
    path
    for page in PAGES.glob("*.md")
    for path in re.findall(r"^::: (\S+)$", page.read_text(), re.M)
]


def public_names(module):
    """The paths of the functions and classes that a module offers."""
    names = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
    values = {name: getattr(module, name) for name in names}
    return {
        f"{module.__name__}.{name}"
        for name, value in values.items()
        if (isfunction(value) or isclass(value))
        and (hasattr(module, "__all__") or value.__module__ == module.__name__)
    }


@pytest.mark.parametrize(
    "module", [edgeformers, evaluation, metrics], ids=lambda module: module.__name__
)
def test_every_public_function_and_class_is_documented(module):
    names = public_names(module)
    assert len(names) > 10
    assert names - set(DOCUMENTED) == set(), "add them to a page of docs/api as ::: NAME"


def test_every_error_is_documented():
    names = {name for name in public_names(errors) if name.endswith("Error")}
    assert names - set(DOCUMENTED) == set()


@pytest.mark.parametrize("path", DOCUMENTED)
def test_a_documented_name_exists_and_has_a_docstring(path):
    module, _, name = path.rpartition(".")
    assert getdoc(getattr(import_module(module), name))


def test_no_name_is_documented_twice():
    assert len(DOCUMENTED) == len(set(DOCUMENTED))
