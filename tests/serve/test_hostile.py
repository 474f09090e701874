"""Requests made from the schema, odd node ids, and clients that misbehave on the network."""

import json
import resource
import socket
import threading
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection
from urllib.parse import quote

import hypothesis
import pyarrow as pa
import pytest
import schemathesis
import uvicorn

import edgeformers
from edgeformers.estimators import LinkPredictor
from edgeformers.serve.app import create_app
from edgeformers.serve.service import Service
from tests.estimators.conftest import tiny

ODD_IDS = [
    "a/b",
    "/",
    "a b",
    "käse 😀",
    "100%",
    "%2F",
    "?k=3",
    "#1",
    "a+b&c;d",
    "back\\slash",
    "recommendations",
    "x/recommendations",
    "x/edges/similar",
    "a//b",
    "a/../b",
    '"quoted"',
    "<b>",
]


@contextmanager
def listening(service):
    """The address of a real server in a thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(create_app(service), log_level="critical", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=[[listener]])
    thread.start()
    yield listener.getsockname()
    server.should_exit = True
    thread.join(10)


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=str)
def test_no_request_within_or_outside_the_schema_is_a_server_error(runs, tmp_path, mode):
    service = Service(runs, store=tmp_path / "edges.db", device="cpu")
    with listening(service) as (host, port):
        check_operations(schemathesis.openapi.from_url(f"http://{host}:{port}/openapi.json"), mode)
    service.close()


def check_operations(api, mode):
    for operation in api.get_all_operations():

        @hypothesis.given(case=operation.ok().as_strategy(generation_mode=mode))
        @hypothesis.settings(
            max_examples=30,
            phases=[hypothesis.Phase.generate],
            deadline=None,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        def check(case):
            received = case.call()
            assert received.status_code < 500, (case.as_curl_command(), received.text)

        with suppress(hypothesis.errors.Unsatisfiable):  # nothing can be wrong without parameters
            check()


@pytest.fixture(scope="module")
def odd_address(tmp_path_factory):
    """Where a server of a network listens whose node ids are hard to put into a path."""
    folder = tmp_path_factory.mktemp("odd")
    count = len(ODD_IDS)
    pairs = [(at, (at + step) % count) for at in range(count) for step in range(4)]
    table = pa.table(
        {
            "source": [ODD_IDS[source] for source, _ in pairs],
            "target": [ODD_IDS[target] for _, target in pairs],
            "text": [f"text {at % 7}" for at in range(len(pairs))],
        }
    )
    options = {"source": "source", "target": "target", "text": "text", "progress": False}
    graph = edgeformers.prepare(table, folder / "network", tokenizer="train:300", **options)
    tiny(LinkPredictor).fit(graph, run=folder / "run")
    service = Service([folder / "run"], store=folder / "edges.db", device="cpu")
    with listening(service) as address:
        yield address
    service.close()


@pytest.mark.parametrize("node", ODD_IDS)
def test_every_route_takes_any_node_id(odd_address, node):
    with closing(HTTPConnection(*odd_address)) as connection:
        paths = answer(connection, "GET", "/openapi.json")["paths"]
        routes = [(method, path) for path in paths if "{node}" in path for method in paths[path]]
        assert routes
        for method, path in sorted(routes, reverse=True):  # "get" before "delete"
            found = answer(connection, method.upper(), path.replace("{node}", quote(node, safe="")))
            assert found.get("node", node) == node


def answer(connection, method, path):
    connection.request(method, path)
    received = connection.getresponse()
    body = received.read()
    assert received.status == 200, (method, path, body)
    return json.loads(body)


@pytest.fixture(scope="module")
def address(service):
    """Where a server with the service of all tests listens."""
    with listening(service) as address:
        yield address


def connected(address):
    connection = socket.create_connection(address, timeout=10)
    return closing(connection)


def status(connection):
    """The status of the answer; None if the connection was closed without one."""
    head = b""
    while b"\r\n\r\n" not in head:
        received = connection.recv(65_536)
        if not received:
            return None
        head += received
    return int(head.split(b" ", 2)[1])


def answer_to(connection, request):
    """The status of the answer to a request; None if the server ended the connection."""
    try:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return status(connection)
    except TimeoutError:
        raise
    except OSError:  # ended before everything was sent
        return None


def is_alive(address):
    with connected(address) as connection:
        connection.sendall(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return status(connection) == 200


@pytest.mark.parametrize(
    "line",
    [
        b"GET /v1/nodes/\xff\xfe/recommendations HTTP/1.1",
        b"GET /v1/nodes/a\x00b/recommendations HTTP/1.1",
        b"GET /v1/nodes/" + b"a" * 100_000 + b"/recommendations HTTP/1.1",
        b"GET http://elsewhere/v1/models HTTP/1.1",
        b"BREW /v1/models HTTP/1.1",
        b"GET /v1/models HTTP/9.9",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS handshake
    ],
)
def test_a_malformed_request_line_ends_only_its_connection(address, line):
    with connected(address) as connection:
        request = line + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        assert (answer_to(connection, request) or 400) < 500
    assert is_alive(address)


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: -1",
        b"Content-Length: 99999999999999999999999",
        b"Content-Length: 5\r\nContent-Length: 7",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked",
        b"X: " + b"a" * 500_000,
        b"\r\n".join(b"X-%d: 1" % at for at in range(20_000)),
    ],
)
def test_malformed_headers_end_only_their_connection(address, headers):
    with connected(address) as connection:
        request = b"POST /v1/edges/predict HTTP/1.1\r\nHost: localhost\r\n" + headers
        assert (answer_to(connection, request + b"\r\n\r\n{}") or 400) < 500
    assert is_alive(address)


def test_slow_clients_do_not_keep_others_waiting(address):
    head = b"POST /v1/edges/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
    with ExitStack() as stack:
        for at in range(100):
            connection = stack.enter_context(connected(address))
            connection.sendall(head + b"\r\n{" if at % 2 else head)  # within body or headers
        assert is_alive(address)


def test_a_client_that_leaves_before_the_answer_harms_nobody(address):
    edge = {"source": "a", "target": "b", "text": "fine"}
    body = json.dumps({"edges": [edge] * 200}).encode()
    head = f"POST /v1/edges/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    head += "Content-Type: application/json\r\n\r\n"
    for _ in range(5):
        with connected(address) as connection:
            connection.sendall(head.encode() + body)
    with connected(address) as connection:  # half-closed, which uvicorn takes for leaving
        assert answer_to(connection, head.encode() + body) in (200, None)
    assert is_alive(address)


def test_thousands_of_open_connections_leave_room_for_one_more(address):
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)  # each connection has two ends here
    with ExitStack() as stack:
        for _ in range(min(2_000, (files - 300) // 2)):
            stack.enter_context(connected(address))
        assert is_alive(address)
