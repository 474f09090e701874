"""The schema and the page describe what the server does; Schemathesis tries to break it."""

import re

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode, checks

from edgeformers.serve.app import create_app
from edgeformers.serve.service import Service


def test_the_page_shows_every_route_and_needs_no_other_file(client):
    page = client.get("/docs").text
    for path in client.get("/openapi.json").json()["paths"]:
        assert path in page
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page)
    assert "<script" not in page
    names = set(re.findall(r'href="#([^"]+)"', page))
    assert names <= set(re.findall(r'id="([^"]+)"', page))


def test_every_operation_documents_its_errors_as_problems(client):
    for operations in client.get("/openapi.json").json()["paths"].values():
        for operation in operations.values():
            assert operation["description"]
            assert {"401", "404", "413", "422", "503"} <= operation["responses"].keys()
            content = operation["responses"]["422"]["content"]
            assert list(content) == ["application/problem+json"]


@pytest.mark.slow
@pytest.mark.parametrize("mode", GenerationMode)
def test_schemathesis_finds_no_answer_that_the_schema_does_not_allow(runs, tmp_path, mode):
    service = Service(runs, store=tmp_path / "edges.sqlite", device="cpu")
    allowed = [
        checks.not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]
    api = schemathesis.openapi.from_asgi("/openapi.json", create_app(service))
    for operation in (each.ok() for each in api.get_all_operations()):
        has_input = any(operation.iter_parameters()) or operation.body
        if mode is GenerationMode.NEGATIVE and not has_input:  # nothing to get wrong
            continue
        strategy = operation.as_strategy(generation_mode=mode)

        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
        @given(case=strategy)
        def check(case):
            case.call_and_validate(checks=allowed)

        check()
    service.close()
