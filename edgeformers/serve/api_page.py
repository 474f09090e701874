"""The API as a schema (/openapi.json) and as a page (/docs) that needs nothing from elsewhere."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment

from edgeformers.report.page import html_environment
from edgeformers.serve.problems import MEDIA_TYPE
from edgeformers.serve.schemas import Problem

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"
PROBLEMS = {
    "400": "The request cannot be read.",
    "401": "The token is missing or wrong.",
    "404": "The node, the model or the path is unknown.",
    "409": "It conflicts with what the server has.",
    "413": "The request is too large; the limit is in the message.",
    "422": "The input cannot be used; the message says why.",
    "503": "Too many requests; try again after `Retry-After` seconds.",
}
REFERENCE = "#/components/schemas/"

Schema = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Field:
    """A parameter or a field of an object, as the page shows it."""

    name: str
    kind: str
    reference: str | None  # the schema that the kind refers to
    note: str


def add_api_page(app: FastAPI) -> None:
    """Describe the API as it is: problem details for all errors, and tokens."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _openapi(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]

    @app.get("/docs", include_in_schema=False)
    def show() -> Response:
        page = (
            _environment()
            .get_template("api.html.j2")
            .render(
                api=app.openapi(),
                style=_style(),
                fields=_fields,
                parameters=_parameters,
                body=_body,
            )
        )
        return HTMLResponse(page, headers={"Content-Security-Policy": POLICY})


def _openapi(app: FastAPI) -> dict[str, Any]:
    schema = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    parts = schema["components"]
    parts["schemas"] = {
        **{n: s for n, s in parts["schemas"].items() if "ValidationError" not in n},
        "Problem": Problem.model_json_schema(),
    }
    parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    schema["security"] = [{"token": []}, {}]
    content = {MEDIA_TYPE: {"schema": {"$ref": f"{REFERENCE}Problem"}}}
    problems = {code: {"description": text, "content": content} for code, text in PROBLEMS.items()}
    for operations in schema["paths"].values():
        for operation in operations.values():
            operation["responses"] |= problems
    return schema


def _parameters(operation: Schema) -> list[Field]:
    """The parameters in the path, the query and the headers."""
    return [
        _field(each["name"], each["schema"], each.get("description", ""), each["required"])
        for each in operation.get("parameters", ())
    ]


def _fields(schema: Schema) -> list[Field]:
    """The fields of an object."""
    required = schema.get("required", ())
    return [
        _field(name, values, values.get("description", ""), name in required)
        for name, values in schema.get("properties", {}).items()
    ]


def _field(name: str, schema: Schema, about: str, is_required: bool) -> Field:
    kind, reference = _kind(schema)
    default = schema.get("default")
    shown = "" if default in (None, "") else f"Default: {json.dumps(default)}."
    bounds = [
        f"{word} {schema[key]:,}."
        for key, word in (("minimum", "At least"), ("maximum", "At most"))
        if key in schema
    ]
    notes = ["Required." if is_required else "", about, shown, *bounds]
    return Field(name=name, kind=kind, reference=reference, note=" ".join(filter(None, notes)))


def _kind(schema: Schema) -> tuple[str, str | None]:
    """What a value is, in words, and the schema it refers to."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(REFERENCE)
        return name, name
    if "anyOf" in schema:
        kinds = [_kind(each) for each in schema["anyOf"] if each.get("type") != "null"]
        return " or ".join(kind for kind, _ in kinds), next((ref for _, ref in kinds if ref), None)
    if "items" in schema:
        kind, reference = _kind(schema["items"])
        return f"list of {kind}", reference
    if "enum" in schema:
        return " or ".join(map(json.dumps, schema["enum"])), None
    if "const" in schema:
        return json.dumps(schema["const"]), None
    return str(schema.get("type", "any value")), None


def _body(content: Schema) -> str | None:
    """The schema of a request or a response."""
    schema = content.get("content", {}).get("application/json", {}).get("schema", {})
    return _kind(schema)[1]


@cache
def _style() -> str:
    return (files("edgeformers.report") / "templates/style.css").read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    return html_environment("edgeformers.serve")
