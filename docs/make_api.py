"""Writes docs/api.md from the docstrings of the public names: python docs/make_api.py."""

import ast
import inspect
import io
import re
import textwrap
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import edgeformers
from edgeformers import config, errors, evaluation
from edgeformers.data import simulate
from edgeformers.evaluation import metrics

PAGE = Path(__file__).with_name("api.md")
WIDTH = 96  # of a signature before each argument takes a line of its own
HEAD = """# API

Every public name, from its own docstring; written by `python docs/make_api.py`. For a way in, see
the [tutorial](tutorial.md). What a name needs is imported when it is first used.
"""


@dataclass(frozen=True)
class Chapter:
    """A part of the page: a few words, and the names it explains."""

    title: str
    about: str
    names: Iterable[str]  # module:name


def names_of(module: ModuleType, only: Iterable[str] | None = None) -> list[str]:
    """The functions and classes that a module offers, or those of them that are named."""
    listed = list(only or getattr(module, "__all__", vars(module)))
    found = {name: getattr(module, name) for name in listed if not name.startswith("_")}
    return [
        f"{module.__name__}:{name}"
        for name, one in found.items()
        if (inspect.isfunction(one) or inspect.isclass(one))
        and (one.__module__ == module.__name__ or hasattr(module, "__all__"))
    ]


ERRORS = [place for place in names_of(errors) if place.endswith("Error")]
CHAPTERS = (
    Chapter("The package", "`import edgeformers`", names_of(edgeformers)),
    Chapter(
        "Models, backbones and answers",
        "What the models are made of, and what the estimators give.",
        [
            "edgeformers.models.edgeformer_e:EdgeformerEConfig",
            "edgeformers.models.edgeformer_n:EdgeformerNConfig",
            "edgeformers.nn.backbones:load_backbone",
            "edgeformers.nn.backbones:random_backbone",
            "edgeformers.nn.backbones:export_backbone",
            "edgeformers.estimators:Recommendation",
            "edgeformers.estimators:Reason",
            "edgeformers.inference.candidate_filter:CandidateFilter",
            "edgeformers.inference.fitted_links:SimilarNode",
            "edgeformers.inference.fitted_links:WhatIf",
            "edgeformers.inference.word_attention:AttendedText",
        ],
    ),
    Chapter(
        "Preparing",
        "What `prepare` takes beside columns, and the readers of raw public formats.",
        [
            "edgeformers.data.network:PrepareConfig",
            "edgeformers.data.splits:SplitConfig",
            "edgeformers.data.prepare:PrepareOptions",
            "edgeformers.data.table:EdgeTable",
            "edgeformers.data.readers.amazon:read_amazon_reviews",
            "edgeformers.data.readers.amazon:read_amazon_metadata",
            "edgeformers.data.readers.goodreads:read_goodreads_reviews",
            "edgeformers.data.readers.stackexchange:read_stackexchange_posts",
            "edgeformers.data.readers.stackexchange:read_stackexchange_comments",
            "edgeformers.data.readers.stackexchange:read_bigquery_comments",
            "edgeformers.data.readers.authors:read_authors_edges",
            "edgeformers.data.readers.authors:read_authors_pairs",
            "edgeformers.data.readers.git:read_git",
            "edgeformers.data.readers.mbox:read_mbox",
            "edgeformers.data.tokenize:add_tokens",
            "edgeformers.data.card.card:Finding",
        ],
    ),
    Chapter(
        "A network with a known best answer",
        "`edgeformers.data.simulate`",
        names_of(simulate, ["Simulation", "SimulationConfig", "BestScores", "BestLinkScores"]),
    ),
    Chapter(
        "Runs, vectors and whole tables",
        "What the verbs `train`, `embed`, `predict`, `recommend` and `classify-nodes` call.",
        [
            "edgeformers.runs:train_run",
            "edgeformers.runs:open_run",
            "edgeformers.inference.embed:embed",
            "edgeformers.inference.embed:read_embeddings",
            "edgeformers.inference.embed:EmbeddingTable",
            "edgeformers.inference.batch_inference:predict_edges",
            "edgeformers.inference.batch_inference:recommend_all",
            "edgeformers.inference.batch_inference:write_recommendations",
            "edgeformers.inference.batch_inference:write_rows",
            "edgeformers.inference.node_classification:read_node_labels",
            "edgeformers.inference.node_classification:network_node_labels",
            "edgeformers.inference.node_classification:classify_labeled_nodes",
            "edgeformers.inference.node_classification:classify_nodes",
        ],
    ),
    Chapter(
        "Serving",
        "What the verbs `index` and `serve` call, and the store of edges that arrive.",
        [
            "edgeformers.inference.index:LinkIndex",
            "edgeformers.serve.service:Service",
            "edgeformers.serve.app:create_app",
            "edgeformers.data.edge_store:EdgeStore",
        ],
    ),
    Chapter("Evaluation", "`edgeformers.evaluation`", names_of(evaluation)),
    Chapter(
        "As of each moment",
        "The protocol `rolling`: links in time order, each ranked with all that is earlier.",
        [
            "edgeformers.evaluation.rolling:RollingLinks",
            "edgeformers.evaluation.rolling:RollingScorer",
            "edgeformers.inference.rolling:RollingPredictor",
            "edgeformers.baselines.temporal.recent_popularity:RecentPopularity",
        ],
    ),
    Chapter("Metrics", "`edgeformers.evaluation.metrics`: functions of arrays", names_of(metrics)),
    Chapter("Errors", "`edgeformers.errors`: each message is a sentence", ERRORS),
)


class Source:
    """A function or a class as its author wrote it."""

    def __init__(self, one: Any) -> None:
        self.one = one
        self.text = textwrap.dedent(inspect.getsource(one))
        self.node: Any = ast.parse(self.text).body[0]

    def written(self, node: ast.expr) -> str:
        """An expression as it is written; a constant's value, a name ahead of its time as it is."""
        if isinstance(node, ast.Name) and node.id.isupper():
            return repr(getattr(import_module(self.one.__module__), node.id)).replace("'", '"')
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value if node.value[:1].isupper() else f'"{node.value}"'
        return " ".join((ast.get_source_segment(self.text, node) or "").split())

    def signature(self, name: str, *, returns: bool = True) -> str:
        """The call, without self, on one line or a line per argument."""
        given = list(self.arguments())
        node = self.node.returns if returns else None
        result = f" -> {self.written(node)}" if node is not None else ""
        line = f"{name}({', '.join(given)}){result}"
        if len(line) <= WIDTH:
            return line
        inner = "\n".join(f"    {one}," for one in given)
        return f"{name}(\n{inner}\n){result}"

    def arguments(self) -> Iterator[str]:
        """The arguments of a call, each as `name: type = default`."""
        node: ast.arguments = self.node.args
        plain = [one for one in node.args if one.arg not in ("self", "cls")]
        defaults = [None] * (len(plain) - len(node.defaults)) + node.defaults
        for one, default in zip(plain, defaults, strict=True):
            yield self.argument(one, default)
        if node.vararg is not None:
            yield f"*{self.argument(node.vararg)}"
        elif node.kwonlyargs:
            yield "*"
        for one, default in zip(node.kwonlyargs, node.kw_defaults, strict=True):
            yield self.argument(one, default)
        if node.kwarg is not None:
            yield f"**{self.argument(node.kwarg)}"

    def argument(self, one: ast.arg, default: ast.expr | None = None) -> str:
        """One argument of a call."""
        kind = f": {self.written(one.annotation)}" if one.annotation is not None else ""
        return f"{one.arg}{kind}" + ("" if default is None else f" = {self.written(default)}")

    def words(self) -> str:
        """The docstring as Markdown; a paragraph of Python becomes a block of code."""
        text = inspect.cleandoc(ast.get_docstring(self.node) or "")
        if not text:
            raise ValueError(f"{self.one.__module__}.{self.node.name} has no docstring")
        return "\n\n".join(map(as_markdown, text.split("\n\n"))) + "\n"

    @cached_property
    def comments(self) -> dict[int, str]:
        """What stands behind the # of each line."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return {
            token.start[0]: token.string.lstrip("# ")
            for token in tokens
            if token.type == tokenize.COMMENT
        }

    def fields(self) -> Iterator[list[str]]:
        """Name, type, default and comment of every public field that a dataclass defines."""
        for line in self.node.body:
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                default = "" if line.value is None else self.default(line.value)
                lines = range(line.lineno, (line.end_lineno or line.lineno) + 1)
                said = " ".join(self.comments[at] for at in lines if at in self.comments)
                yield [line.target.id, self.written(line.annotation), default, said]

    def default(self, value: ast.expr) -> str:
        """A default as a reader wants it: field(default_factory=lambda: [8]) is [8]."""
        if not isinstance(value, ast.Call) or self.written(value.func) != "field":
            return self.written(value)
        given = {word.arg: word.value for word in value.keywords}
        made = given.get("default_factory", given.get("default"))
        if isinstance(made, ast.Lambda):
            return self.written(made.body)
        empty = {"list": "[]", "dict": "{}"}
        return "" if made is None else empty.get(self.written(made), self.written(made))


def make_page() -> str:
    """The whole page."""
    blocks = [HEAD, contents()]
    for chapter in CHAPTERS:
        blocks += [f"## {chapter.title}\n\n{chapter.about}\n", *map(describe, chapter.names)]
    return "\n".join([*blocks, *settings()])


def contents() -> str:
    """Every chapter and its names, as links."""
    lines = []
    for chapter in CHAPTERS:
        names = [place.partition(":")[2] for place in chapter.names]
        links = ", ".join(f"[{name}](#{name.lower()})" for name in names)
        lines.append(f"- [{chapter.title}](#{anchor(chapter.title)}): {links}")
    return "\n".join([*lines, "- [Settings](#settings)\n"])


def anchor(title: str) -> str:
    """What a heading is called in links."""
    return re.sub(r"[^\w-]", "", title.lower().replace(" ", "-"))


def describe(place: str) -> str:
    """A heading, the signature and the words of one name, and the members of a class."""
    module, _, name = place.partition(":")
    one = getattr(import_module(module), name)
    source = Source(one)
    lines = [f"### {name}\n"]
    if module != "edgeformers":
        lines.append(f"`from {module} import {name}`\n")
    call = source.signature(name) if inspect.isfunction(one) else construction(one)
    lines += [*([fenced(call)] if call else []), source.words()]
    if is_dataclass(one):
        lines += field_table(one)
    if inspect.isclass(one) and not issubclass(one, Exception):
        lines += members(one)
    return "\n".join(lines)


def settings() -> Iterator[str]:
    """Every setting of a run, by section."""
    yield "## Settings\n\nBy dotted name, as in `settings={...}`, `--set` and `config.toml`.\n"
    for section in fields(config.RunConfig):
        if is_dataclass(section.type):
            yield f"### {section.name}\n\n{Source(section.type).words()}"
            yield from field_table(section.type, f"{section.name}.")


def construction(one: type) -> str:
    """How an object is made, by __init__ wherever it is written; a dataclass has its fields."""
    if issubclass(one, Exception):
        return f"class {one.__name__}({', '.join(base.__name__ for base in one.__bases__)})"
    made = inspect.getattr_static(one, "__init__", None)
    if is_dataclass(one) or not inspect.isfunction(made):
        return ""
    return Source(made).signature(one.__name__, returns=False)


def members(one: type) -> Iterator[str]:
    """The public methods and values of a class that say what they are for."""
    values, methods = [], []
    for name, member in vars_of(one).items():
        is_value = isinstance(member, property | cached_property)
        function = getattr(member, "fget", None) or getattr(member, "func", None)
        function = function or getattr(member, "__func__", member)
        if name.startswith("_") or not inspect.isfunction(function) or not function.__doc__:
            continue
        source = Source(function)
        if is_value:
            kind = source.written(source.node.returns)
            values.append([f"`{name}`", f"`{kind}`", source.words().strip().replace("\n", " ")])
        else:
            call = fenced(source.signature(name))
            methods.append(f"#### {one.__name__}.{name}\n\n{call}\n{source.words()}")
    return iter([*markdown_table(["value", "type", ""], values), *methods])


def vars_of(one: type) -> dict[str, Any]:
    """What a class and its bases of this library hold, the bases first."""
    names = dict.fromkeys(name for base in bases_of(one) for name in vars(base))
    return {name: inspect.getattr_static(one, name) for name in names}


def bases_of(one: type) -> list[type]:
    """A class behind the classes of this library that it is made of."""
    return [base for base in reversed(one.__mro__) if base.__module__.startswith("edgeformers")]


def field_table(one: type, prefix: str = "") -> list[str]:
    """The fields of a dataclass and of its bases, a row each."""
    found = {row[0]: row for base in bases_of(one) for row in Source(base).fields()}
    rows = [
        [f"`{prefix}{name}`", f"`{kind}`", f"`{default}`" if default else "", comment]
        for name, kind, default, comment in found.values()
        if not name.startswith("_")
    ]
    return markdown_table(["setting" if prefix else "field", "type", "default", ""], rows)


def markdown_table(head: list[str], rows: list[list[str]]) -> list[str]:
    """A table, or nothing where it would have no row."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *escaped]]
    return ["\n".join(lines) + "\n"] if rows else []


def as_markdown(paragraph: str) -> str:
    """A paragraph as it is, or fenced where it is Python."""
    try:
        parsed = ast.parse(paragraph)
    except SyntaxError:
        return paragraph
    is_code = any(isinstance(node, ast.Call) for node in ast.walk(parsed))
    return fenced(paragraph).rstrip() if is_code else paragraph


def fenced(code: str) -> str:
    """A block of code that is read, not run."""
    return f"```\n{code}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(make_page(), encoding="utf-8")
