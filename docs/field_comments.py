"""Griffe extension: the comment behind an attribute is its docstring, unless it has one."""

import io
import tokenize
from textwrap import dedent
from typing import Any

import griffe


class FieldComments(griffe.Extension):
    """Reads `width: int = 64  # size of node embeddings` as a documented attribute."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Visit every class of a loaded package."""
        visit(pkg)


def visit(parent: griffe.Module | griffe.Class) -> None:
    """Add docstrings to the attributes of all classes below."""
    for member in parent.members.values():
        if member.is_alias:
            continue
        if isinstance(member, griffe.Module | griffe.Class):
            visit(member)
        elif isinstance(parent, griffe.Class) and isinstance(member, griffe.Attribute):
            comment = comment_of(member)
            if comment and member.docstring is None:
                member.docstring = griffe.Docstring(comment, parent=member)


def comment_of(attribute: griffe.Attribute) -> str:
    """The comment behind an attribute, or else the lines of comment above it."""
    lines = attribute.lines_collection[attribute.filepath]
    first, last = attribute.lineno - 1, attribute.endlineno
    start = first
    while lines[start - 1].strip().startswith("#"):
        start -= 1
    return comments(lines[first:last]) or comments(lines[start:first])


def comments(lines: list[str]) -> str:
    """The comments of some lines of code as one text."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(dedent("\n".join(lines))).readline))
    except tokenize.TokenError:  # the lines are part of a longer expression
        return ""
    return " ".join(
        token.string.lstrip("#: ") for token in tokens if token.type == tokenize.COMMENT
    )
