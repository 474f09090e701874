"""A server that is killed again and again loses no edge that it acknowledged."""

import http.client
import json
import multiprocessing
import random
import shutil
import socket
import threading
import time
import urllib.error
import urllib.request

import pytest

from edgeformers.data.edge_store import EdgeStore
from tests.cli.conftest import call
from tests.serve.test_server import get

KILLS = 20
EDGES = 3  # per request
PATIENCE = 60  # s, for anything


class Client(threading.Thread):
    """Posts edges until the server is gone; `acknowledged` has those of answered requests."""

    def __init__(self, address, life):
        super().__init__(daemon=True)
        self.url, self.life = f"{address}/v1/edges", life
        self.acknowledged = []
        self.has_answer = threading.Event()

    def run(self):
        for request in range(1_000_000):
            texts = [f"Text {self.life} {request} {at}." for at in range(EDGES)]
            edges = [{"source": "zoe", "target": f"kayak-{self.life}", "text": t} for t in texts]
            body = json.dumps({"edges": edges}).encode()
            headers = {"Content-Type": "application/json"}
            try:
                posted = urllib.request.Request(self.url, body, headers)
                with urllib.request.urlopen(posted, timeout=PATIENCE) as answer:
                    assert json.load(answer)["added"] == EDGES
            except (OSError, ValueError, http.client.HTTPException):  # killed while it answered
                return
            self.acknowledged += texts
            self.has_answer.set()


@pytest.fixture
def start(runs, tmp_path):
    """Start the program on the link run; returns the process and its address."""
    shutil.copytree(runs[1], tmp_path / "links")
    context = multiprocessing.get_context("forkserver")  # imports the library only once
    context.set_forkserver_preload(["edgeformers.cli.main", "edgeformers.serve.server"])
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    processes = []

    def start():
        arguments = ("serve", tmp_path / "links", "--port", port)
        processes.append(context.Process(target=call, args=arguments))
        processes[-1].start()
        address, deadline = f"http://127.0.0.1:{port}", time.monotonic() + PATIENCE
        while True:
            try:
                get(address, "/health/live")
                return processes[-1], address
            except urllib.error.URLError:  # it does not listen yet
                assert processes[-1].is_alive()
                assert time.monotonic() < deadline
                time.sleep(0.02)

    yield start
    for process in processes:
        process.kill()
        process.join()


def listed_texts(address, node):
    """The texts of all edges of a node, page by page."""
    texts, cursor = [], "0"
    while cursor:
        page = get(address, f"/v1/nodes/{node}/edges?limit=100&cursor={cursor}")
        texts += [edge["text"] for edge in page["edges"]]
        cursor = page["next"]
    return texts


@pytest.mark.slow
def test_twenty_kills_lose_no_acknowledged_edge(start, tmp_path):
    acknowledged, moments = [], random.Random(0)
    for life in range(KILLS):
        process, address = start()
        client = Client(address, life)
        client.start()
        assert client.has_answer.wait(PATIENCE)
        time.sleep(moments.uniform(0, 0.2))
        process.kill()
        process.join(PATIENCE)
        client.join(PATIENCE)
        acknowledged += client.acknowledged
    _, address = start()
    shown = listed_texts(address, "zoe")
    with EdgeStore(tmp_path / "links.edges.sqlite", create=False) as store:
        stored = [edge.text for edge in store.edges_after(0)]
    for texts in (stored, shown):
        assert len(texts) == len({*texts})
        assert {*acknowledged} <= {*texts}
    assert {*shown} == {*stored}
