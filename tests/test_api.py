"""The API page says what the docstrings say, of every public name and every setting."""

import importlib.util
from dataclasses import fields, is_dataclass
from inspect import isclass, isfunction
from pathlib import Path

import pytest

import edgeformers
from edgeformers import evaluation
from edgeformers.config import RunConfig

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "api.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def maker():
    """docs/make_api.py as a module."""
    spec = importlib.util.spec_from_file_location("make_api", DOCS / "make_api.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(maker):
    made = maker.make_page()
    assert made == PAGE, "docs/api.md is out of date; run: python docs/make_api.py"


@pytest.mark.parametrize("module", [edgeformers, evaluation], ids=lambda one: one.__name__)
def test_every_public_function_and_class_is_there(module):
    found = {name: getattr(module, name) for name in module.__all__}
    names = [name for name, one in found.items() if isfunction(one) or isclass(one)]
    assert len(names) > 10
    assert [name for name in names if f"\n### {name}\n" not in PAGE] == []


def test_every_setting_is_there_with_its_default():
    for section in fields(RunConfig):
        if is_dataclass(section.type):
            for one in fields(section.type):
                assert f"| `{section.name}.{one.name}` |" in PAGE
    assert "| `train.lr` | `float` | `5e-5` |" in PAGE
    assert "| `data.source_neighbors` | `list[int]` | `[8]` |" in PAGE


def worked(first: "int", *many: str, side: str = "left", size: int | None = None, **more: float):
    """What it does.

    worked(1, side="right")
    """


class Base:
    """A base."""

    def __init__(self, width: int) -> None:
        self.width = width

    @property
    def half(self) -> float:
        """Half of it,
        rounded."""
        return self.width / 2

    def silent(self) -> None:
        return None


class Derived(Base):
    """Derived from it."""

    @classmethod
    def make(cls, text: str = "a") -> "Derived":
        """One from words."""
        return cls(len(text))


def test_a_signature_is_written_as_its_author_wrote_it(maker):
    source = maker.Source(worked)
    line = (
        'worked(first: int, *many: str, side: str = "left", size: int | None = None, **more: float)'
    )
    assert source.signature("worked").replace('"int"', "int") == line
    assert source.words() == 'What it does.\n\n```\nworked(1, side="right")\n```\n'


def test_a_long_signature_takes_a_line_per_argument(maker, monkeypatch):
    monkeypatch.setattr(maker, "WIDTH", 20)
    made = maker.Source(Derived.make.__func__).signature("make")
    assert made == 'make(\n    text: str = "a",\n) -> Derived'


def test_members_are_told_with_their_words_and_silent_ones_are_not(maker, monkeypatch):
    monkeypatch.setattr(maker, "bases_of", lambda one: [Base, Derived])
    table, *methods = maker.members(Derived)
    assert "| `half` | `float` | Half of it, rounded. |" in table
    assert [method.splitlines()[0] for method in methods] == ["#### Derived.make"]
    assert maker.construction(Derived) == "Derived(width: int)"


def test_a_name_without_words_is_refused(maker):
    with pytest.raises(ValueError, match=r"silent has no docstring"):
        maker.Source(Base.silent).words()
