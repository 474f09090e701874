"""The program as a process: what it prints, what it refuses, and how signals end and renew it."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from datetime import UTC, datetime, timedelta

import pytest

import edgeformers
from edgeformers.data.network import PrepareConfig
from edgeformers.data.splits import SplitConfig
from edgeformers.estimators import LinkPredictor
from tests.cli.conftest import call
from tests.conftest import REVIEWS
from tests.estimators.conftest import tiny
from tests.serve.test_versions import write_new_version


@pytest.fixture
def start(runs, tmp_path):
    """Start the program on copies of the runs; returns the process and its address."""
    processes = []
    for run in runs:
        shutil.copytree(run, tmp_path / run.name)

    def start(*options, folders=None):
        folders = folders or [str(tmp_path / run.name) for run in runs]
        command = [sys.executable, "-m", "edgeformers.cli", "serve", *folders, "--port", "0"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment,
        )  # fmt: skip
        processes.append(process)
        line = process.stdout.readline()
        match = re.search(r"open (http://\S+) to explore", line)
        assert match, line + process.stderr.read()
        return process, match[1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def get(address, path, token=None):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with urllib.request.urlopen(urllib.request.Request(address + path, headers=headers)) as answer:
        return json.load(answer)


@pytest.mark.slow
def test_sigterm_answers_what_has_begun_and_ends_with_0(start):
    process, address = start()
    assert get(address, "/health/ready") == {"status": "ready"}
    answers = []
    body = json.dumps(
        {"edges": [{"source": "a", "target": "b", "text": "a long text " * 40}] * 400}
    ).encode()
    request = urllib.request.Request(
        f"{address}/v1/edges/predict", body, {"Content-Type": "application/json"}
    )
    asking = threading.Thread(
        target=lambda: answers.append(json.load(urllib.request.urlopen(request)))
    )
    asking.start()
    while "edgeformers_queue_length 0.0" in _text(address, "/metrics"):
        pass  # until the request is being answered
    process.send_signal(signal.SIGTERM)
    asking.join(30)
    assert len(answers[0]["predictions"]) == 400
    assert process.wait(30) == 0
    assert process.stderr.read() == ""


def test_it_says_how_many_later_links_are_not_read(start, make_network, tmp_path):
    start_day = datetime(2026, 1, 1, tzinfo=UTC)
    days = [{**row, "time": start_day + timedelta(days=at)} for at, row in enumerate(REVIEWS * 20)]
    config = PrepareConfig(splits=[SplitConfig.parse("link=chronological")], tokenizer=None)
    graph = make_network(days, config=config)
    tiny(LinkPredictor).fit(graph, run=tmp_path / "dated")
    number = edgeformers.load(tmp_path / "dated").fitted_.num_unread
    process, _ = start(folders=[str(tmp_path / "dated")])
    assert f" {number} " in process.stdout.readline()


def _text(address, path):
    with urllib.request.urlopen(address + path) as answer:
        return answer.read().decode()


@pytest.mark.slow
def test_sighup_serves_a_new_version(start, tmp_path):
    process, address = start()
    before = get(address, "/v1/models")["models"][1]["version"]
    write_new_version(tmp_path / "links")
    process.send_signal(signal.SIGHUP)
    line = process.stdout.readline()
    after = get(address, "/v1/models")["models"][1]["version"]
    assert f"links {after}" in line
    assert after != before
    (tmp_path / "links/model/config.json").write_text("{")
    process.send_signal(signal.SIGHUP)
    assert "still served" in process.stdout.readline()
    assert get(address, "/v1/models")["models"][1]["version"] == after


@pytest.mark.slow
def test_with_a_token_it_listens_to_others(start, tmp_path):
    (tmp_path / "token").write_text("a-secret-of-enough-length\n")
    _, address = start("--host", "0.0.0.0", "--token-file", str(tmp_path / "token"))
    local = address.replace("0.0.0.0", "127.0.0.1")
    assert get(local, "/health/live") == {"status": "live"}
    with pytest.raises(urllib.error.HTTPError, match="401"):
        get(local, "/v1/models")
    assert len(get(local, "/v1/models", "a-secret-of-enough-length")["models"]) == 2


def test_what_cannot_be_served_is_one_sentence(runs, tmp_path):
    refused = call("serve", runs[1], "--host", "0.0.0.0")
    assert refused.code == 2
    assert "--token-file" in refused.err
    missing = call("serve", tmp_path / "nothing", "--port", 0)
    assert missing.code == 2
    assert "nothing" in missing.err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        busy = call("serve", runs[1], "--port", port)
    assert busy.code == 2
    assert f"{port}" in busy.err
    assert call("serve", runs[1], "--port", 70_000).code == 2
