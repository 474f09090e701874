"""The application: routes, documentation, authentication and limits put together."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from anyio import to_thread
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

from edgeformers import __version__
from edgeformers.serve.api_page import add_api_page
from edgeformers.serve.auth import Authentication
from edgeformers.serve.explore.pages import add_explorer
from edgeformers.serve.gate import Gate
from edgeformers.serve.login import add_login
from edgeformers.serve.problems import add_error_handlers
from edgeformers.serve.routes import add_routes
from edgeformers.serve.service import Service

DESCRIPTION = (
    "Every answer names its model and version. A request that names no model goes to the first run "
    "that can answer it. Errors are problem details (RFC 9457) with a sentence in `detail`."
)


def create_app(
    service: Service,
    *,
    tokens: Sequence[str] = (),
    cors_origins: Sequence[str] = (),
    only_local_names: bool = False,
) -> FastAPI:
    """The application of a service, which it closes at the end.

    With `tokens`, requests need one of them. Pages of `cors_origins` may call the API from a
    browser. `only_local_names` refuses requests whose Host header does not name this machine.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = service.limits.in_flight
        yield
        service.close()

    app = FastAPI(
        title="edgeformers",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    authentication = Authentication(tokens)
    app.add_middleware(
        Gate,
        authentication=authentication,
        limits=service.limits,
        metrics=service.metrics,
        only_local_names=only_local_names,
    )
    if cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=cors_origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key"],
        )
    add_error_handlers(app)
    add_routes(app, service)
    add_api_page(app)
    add_explorer(app, service, has_login=authentication.is_required)
    if authentication.is_required:
        add_login(app, authentication)
    return app
