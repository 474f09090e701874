"""Who may use the server: tokens, the login of the explorer, and other machines' addresses."""

import pytest
from fastapi.testclient import TestClient

from edgeformers.errors import InputError
from edgeformers.serve import auth
from edgeformers.serve.app import create_app
from edgeformers.serve.auth import Authentication, check_address, names_local_host, read_tokens

TOKENS = ["a-secret-of-enough-length", "the-next-secret-in-use"]


@pytest.fixture
def guarded(service):
    """A client of an application with tokens; cookies are kept, redirects are not followed."""
    return TestClient(create_app(service, tokens=TOKENS), follow_redirects=False)


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_a_token_opens_the_api_and_nothing_else_does(guarded):
    assert guarded.get("/v1/models", headers=bearer(TOKENS[0])).status_code == 200
    assert guarded.get("/v1/models", headers=bearer(TOKENS[1])).status_code == 200
    for headers in ({}, bearer("wrong"), bearer("ä"), {"Authorization": f"Basic {TOKENS[0]}"}):
        headers = {name: value.encode() for name, value in headers.items()}
        answer = guarded.get("/v1/models", headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "token" in answer.json()["detail"]
    for path in ("/metrics", "/openapi.json", "/info", "/nowhere"):
        assert guarded.get(path).status_code == 401


def test_health_needs_no_token(guarded):
    assert guarded.get("/health/live").status_code == 200
    assert guarded.get("/health/ready").status_code == 200


def test_logging_in_sets_a_cookie_that_scripts_cannot_read(guarded):
    page = guarded.get("/v1/models?x=1", headers={"Accept": "text/html"})
    assert page.headers["location"] == "/login?next=/v1/models%3Fx%3D1"
    assert guarded.get(page.headers["location"]).status_code == 200
    assert guarded.post("/login", data={"token": "wrong"}).status_code == 401
    answer = guarded.post("/login", data={"token": TOKENS[0], "next": "/v1/models"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/v1/models")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=" in cookie
    assert TOKENS[0] not in cookie
    assert guarded.get("/v1/models").status_code == 200
    guarded.post("/logout")
    assert guarded.get("/v1/models").status_code == 401


@pytest.mark.parametrize("page", ["https://evil.example", "//evil.example", "/\\evil", "x", "/\n"])
def test_logging_in_leads_to_no_other_site(guarded, page):
    answer = guarded.post("/login", data={"token": TOKENS[0], "next": page})
    assert answer.headers["location"] == "/"


def test_a_session_ends_and_cannot_be_forged(monkeypatch):
    authentication = Authentication(TOKENS)
    session = authentication.new_session()

    def accepts(value, of=authentication):
        return of.accepts("/v1/models", None, f"{auth.COOKIE}={value}")

    expires, signature = session.split(".")
    assert accepts(session)
    assert not accepts(f"{int(expires) + 1}.{signature}")
    assert not accepts("x.y")
    assert not accepts("9" * 5000 + ".y")
    assert not accepts(session, Authentication(["another-long-secret-token"]))
    now = auth.time.time()
    monkeypatch.setattr(auth.time, "time", lambda: now + auth.SESSION_SECONDS + 1)
    assert not accepts(session)


def test_other_machines_need_a_token():
    for host in ("127.0.0.1", "localhost", "::1"):
        check_address(host, has_tokens=False)
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org"):
        check_address(host, has_tokens=True)
        with pytest.raises(InputError, match="token_file"):
            check_address(host, has_tokens=False)


def test_tokens_are_read_one_per_line_and_must_be_long(tmp_path):
    path = tmp_path / "tokens"
    path.write_text("\n".join(TOKENS) + "\n")
    assert read_tokens(path) == TOKENS
    for text in ("", "short\n"):
        path.write_text(text)
        with pytest.raises(InputError, match="openssl"):
            read_tokens(path)
    with pytest.raises(InputError, match="cannot read"):
        read_tokens(tmp_path / "missing")


def test_without_tokens_a_page_with_a_rebound_name_is_refused(service):
    client = TestClient(create_app(service, only_local_names=True))
    for host, status in (("127.0.0.1:8000", 200), ("evil.example", 400), ("", 400)):
        assert client.get("/v1/models", headers={"Host": host}).status_code == status
    assert names_local_host("[::1]:8000")
    assert names_local_host("LOCALHOST")
    assert not names_local_host("localhost.evil.example:80")


def test_cors_is_off_unless_an_origin_is_named(service):
    ask = {"Origin": "https://shop.example", "Access-Control-Request-Method": "POST"}
    closed = TestClient(create_app(service, tokens=TOKENS))
    assert "access-control-allow-origin" not in closed.options("/v1/models", headers=ask).headers
    opened = TestClient(create_app(service, tokens=TOKENS, cors_origins=[ask["Origin"]]))
    answer = opened.options("/v1/models", headers=ask)
    assert answer.headers["access-control-allow-origin"] == ask["Origin"]
    other = opened.options("/v1/models", headers={**ask, "Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in other.headers
