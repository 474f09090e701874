"""Every curl command of the guide gets an answer."""

import re
import shlex
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from edgeformers.serve.app import create_app
from edgeformers.serve.service import Service

GUIDE = Path(__file__).parents[2] / "docs" / "rest.md"
COMMANDS = re.findall(r"^curl .*$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)


def request(client, command):
    """What a curl command asks for."""
    words, headers, method, body, url = shlex.split(command)[1:], {}, None, None, ""
    while words:
        word = words.pop(0)
        if word == "-H":
            name, _, value = words.pop(0).partition(": ")
            headers[name] = value
        elif word == "-X":
            method = words.pop(0)
        elif word == "-d":
            body = words.pop(0)
        else:
            url = word.removeprefix("localhost:8000")
    return client.request(method or ("POST" if body else "GET"), url, content=body, headers=headers)


def test_the_commands_of_the_guide_are_answered(runs, tmp_path):
    service = Service(runs, store=tmp_path / "edges.sqlite", device="cpu")
    client = TestClient(create_app(service))
    routes = set()
    for command in COMMANDS:
        answer = request(client, command)
        assert answer.status_code == 200, (command, answer.text)
        routes.add(answer.request.url.path)
    service.close()
    assert len(routes) >= len(client.get("/openapi.json").json()["paths"]) - 1  # no rollback


@pytest.mark.parametrize("path", ["/v1/models/rollback", "/docs", "/openapi.json"])
def test_the_guide_names_the_rest(path):
    assert path in GUIDE.read_text(encoding="utf-8")
