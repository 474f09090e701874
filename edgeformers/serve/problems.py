"""Errors as problem details (RFC 9457) with the library's own messages."""

import logging
from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException as StarletteHTTPException

from edgeformers.data.edge_store import KeyConflictError
from edgeformers.errors import (
    EdgeformersError,
    FileError,
    FormatError,
    InputError,
    UnknownNodeError,
)
from edgeformers.locks import BusyError
from edgeformers.serve.batching import OverloadedError
from edgeformers.serve.limits import TooLargeError
from edgeformers.serve.versions import UnknownModelError

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 1
LISTED_ERRORS = 20
#: The first class that an error belongs to decides.
STATUSES: Mapping[type[EdgeformersError], HTTPStatus] = {
    OverloadedError: HTTPStatus.SERVICE_UNAVAILABLE,
    TooLargeError: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    UnknownNodeError: HTTPStatus.NOT_FOUND,
    UnknownModelError: HTTPStatus.NOT_FOUND,
    KeyConflictError: HTTPStatus.CONFLICT,
    BusyError: HTTPStatus.SERVICE_UNAVAILABLE,
    FileError: HTTPStatus.INSUFFICIENT_STORAGE,  # the disk of the store is full, for example
    FormatError: HTTPStatus.CONFLICT,  # files on the server are damaged
    EdgeformersError: HTTPStatus.UNPROCESSABLE_ENTITY,
}
log = logging.getLogger("edgeformers.serve")


def problem(
    status: int, detail: str, headers: Mapping[str, str] | None = None, **more: object
) -> Response:
    """A response with problem details."""
    title = HTTPStatus(status).phrase
    values = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
    return JSONResponse(values, status, dict(headers or {}), media_type=MEDIA_TYPE)


def error_problem(error: BaseException) -> Response:
    """The response to an error; one that is not the library's is logged, not shown."""
    if not isinstance(error, EdgeformersError):
        log.error("a request failed", exc_info=error)
        return problem(500, "an internal error; the server's log has the details")
    status = error_status(error)
    is_overload = status == HTTPStatus.SERVICE_UNAVAILABLE
    return problem(status, str(error), {"Retry-After": str(RETRY_SECONDS)} if is_overload else None)


def error_status(error: EdgeformersError) -> HTTPStatus:
    """The status of the response to an error of the library."""
    return next(status for kind, status in STATUSES.items() if isinstance(error, kind))


def add_error_handlers(app: FastAPI) -> None:
    """Answer every error with problem details."""

    async def of_library(request: Request, error: Exception) -> Response:
        return error_problem(error)

    async def of_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, StarletteHTTPException)
        return problem(error.status_code, str(error.detail), error.headers)

    async def of_validation(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        errors = [
            str(InputError(f"{'/'.join(map(str, each['loc']))}: {each['msg']}"))  # shortened
            for each in error.errors()[:LISTED_ERRORS]
        ]
        return problem(422, errors[0], errors=errors)

    app.add_exception_handler(EdgeformersError, of_library)
    app.add_exception_handler(HTTPException, of_http)
    app.add_exception_handler(StarletteHTTPException, of_http)
    app.add_exception_handler(RequestValidationError, of_validation)
