"""Gate: what every request passes before a route sees it: limits, authentication, metrics."""

import asyncio
import time
from urllib.parse import quote

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edgeformers.serve.auth import Authentication, names_local_host
from edgeformers.serve.limits import Limits
from edgeformers.serve.metrics import Metrics
from edgeformers.serve.problems import RETRY_SECONDS, error_problem, problem

BODY_SECONDS = 30  # to receive a body
#: Answered even when too many requests are in flight.
ALWAYS = ("/health/live", "/metrics")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class Gate:
    """ASGI middleware: refuses what exceeds a limit or lacks a token, before it costs anything."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        authentication: Authentication,
        limits: Limits,
        metrics: Metrics,
        only_local_names: bool,
    ) -> None:
        self._app, self._authentication = app, authentication
        self._limits, self._metrics = limits, metrics
        self._only_local_names = only_local_names
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).setdefault("X-Content-Type-Options", "nosniff")
            await send(message)

        self._count(1)
        try:
            if refusal := self._refusal(scope):
                await refusal(scope, receive, observed)
            else:
                await self._app(scope, self._limited(receive), observed)
        except Exception as error:
            self._metrics.observe_error()
            answer = error_problem(error)
            if not status:
                await answer(scope, receive, observed)
        finally:
            self._count(-1)
            route = getattr(scope.get("route"), "path_format", "other")
            method = scope["method"] if scope["method"] in METHODS else "other"
            self._metrics.observe_request(method, route, status, time.perf_counter() - start)

    def _count(self, change: int) -> None:
        self._in_flight += change
        self._metrics.set_in_flight(self._in_flight)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to a request that no route should see."""
        headers, path = Headers(scope=scope), scope["path"]
        if self._only_local_names and not names_local_host(headers.get("host", "")):
            return problem(
                400, "the Host header does not name this machine; use --token-file to allow others"
            )
        if not self._authentication.accepts(
            path, headers.get("authorization"), headers.get("cookie")
        ):
            return _login_request(scope, headers)
        if self._in_flight > self._limits.in_flight and path not in ALWAYS:
            limit = f"{self._limits.in_flight} requests are being answered already; try later"
            return problem(503, limit, {"Retry-After": str(RETRY_SECONDS)})
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > self._limits.body_bytes:
            return problem(413, self._body_limit())
        return None

    def _limited(self, receive: Receive) -> Receive:
        """`receive`, until a body is too long or takes too long."""
        received, is_complete = 0, False
        deadline = time.monotonic() + BODY_SECONDS

        async def limited() -> Message:
            nonlocal received, is_complete
            if is_complete:
                return await receive()
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"no complete body within {BODY_SECONDS} s") from None
            received += len(message.get("body", b""))
            if received > self._limits.body_bytes:
                raise HTTPException(413, self._body_limit())
            is_complete = not message.get("more_body", False)
            return message

        return limited

    def _body_limit(self) -> str:
        return f"the body is too large; the limit is {self._limits.body_bytes:,} bytes: split it"


def _login_request(scope: Scope, headers: Headers) -> Response:
    """To a browser the login page, to programs 401."""
    if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
        query = scope["query_string"].decode("latin-1")
        page = scope["path"] + (f"?{query}" if query else "")
        return RedirectResponse(f"/login?next={quote(page)}", 303)
    return problem(
        401,
        "this server needs a token; send the header `Authorization: Bearer TOKEN`",
        {"WWW-Authenticate": "Bearer"},
    )
