"""The REST API: each route checks its input and calls one method of the service."""

from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any

from anyio import to_thread
from fastapi import FastAPI, Query
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from edgeformers import __version__
from edgeformers.data.types import Side
from edgeformers.errors import InputError
from edgeformers.serve import schemas
from edgeformers.serve.api_page import add_api_page
from edgeformers.serve.auth import Authentication
from edgeformers.serve.explore.pages import add_explorer
from edgeformers.serve.gate import Gate
from edgeformers.serve.login import add_login
from edgeformers.serve.problems import add_error_handlers
from edgeformers.serve.service import Embedded, Service

K = Annotated[int, Query(ge=1, le=1_000, description="Number of recommendations.")]
Explain = Annotated[int, Query(ge=0, le=20, description="Reasons per recommendation.")]
ModelName = Annotated[str | None, Query(description="The name of a served run.")]
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
    _add_models(app, service)
    _add_operations(app, service)
    add_api_page(app)
    add_explorer(app, service, has_login=authentication.is_required)
    if authentication.is_required:
        add_login(app, authentication)
    return app


def _add_models(app: FastAPI, service: Service) -> None:
    @app.get("/v1/models")
    def models() -> schemas.Models:
        """The served runs and their versions."""
        return service.models()

    @app.post("/v1/models/reload")
    def reload() -> schemas.Models:
        """Load the runs whose files have changed, without dropping requests."""
        return service.reload()

    @app.post("/v1/models/rollback")
    def rollback() -> schemas.Models:
        """Return to the versions before the last reload."""
        return service.rollback()

    @app.post("/v1/edges/predict")
    def predict(request: schemas.PredictRequest) -> schemas.Predictions:
        """Predict the labels of edges."""
        return service.predict_edges(
            request.edges, ablations=request.ablations, model=request.model
        )

    @app.get("/v1/nodes")
    def search_nodes(
        query: schemas.NodeId = "",
        side: Side | None = None,
        limit: Annotated[int, Query(ge=1, le=100)] = 20,
        model: ModelName = None,
    ) -> schemas.NodeMatches:
        """Find nodes by a part of their id."""
        return service.search_nodes(query, side=side, limit=limit, model=model)

    @app.get("/v1/nodes/{node:path}/edges")
    def list_edges(
        node: str,
        side: Side | None = None,
        cursor: Annotated[str | None, Query(description="`next` of the page before.")] = None,
        limit: Annotated[int, Query(ge=1, le=100)] = 20,
        model: ModelName = None,
    ) -> schemas.NodeEdges:
        """List the edges of a node with their texts, page by page."""
        return service.edges_of(node, side=side, cursor=cursor, limit=limit, model=model)

    @app.get("/v1/nodes/{node:path}/recommendations")
    def recommend(
        node: str,
        k: K = 10,
        exclude_seen: bool = True,
        explain: Explain = 0,
        model: ModelName = None,
    ) -> schemas.Recommendations:
        """Recommend targets to a node of the network."""
        return service.recommend(node, k, exclude_seen=exclude_seen, explain=explain, model=model)

    @app.post("/v1/recommendations")
    def recommend_many(request: schemas.RecommendRequest) -> schemas.RecommendationLists:
        """Recommend targets to a new node, described by its edges, or to several nodes."""
        if bool(request.nodes) == bool(request.edges):
            raise InputError("give either `nodes` of the network or the `edges` of a new node")
        options: dict[str, Any] = {
            "exclude_seen": request.exclude_seen,
            "explain": request.explain,
            "model": request.model,
        }
        if request.edges:
            results = [service.recommend_new(request.edges, request.k, **options)]
        else:
            results = service.recommend_all(request.nodes, request.k, **options)
        first = results[0]
        return schemas.RecommendationLists(
            model=first.model, version=first.version, results=results
        )

    @app.post("/v1/embeddings")
    def embed(request: schemas.EmbeddingRequest) -> schemas.Embeddings:
        """Encode edges or nodes as vectors, in the format of OpenAI's API."""
        given = request.input if isinstance(request.input, list) else [request.input]
        inputs: Any = [
            schemas.EdgeIn(source="", target="", text=each) if isinstance(each, str) else each
            for each in given
        ]
        return _embeddings(service.embed(inputs, model=request.model), request)


def _add_operations(app: FastAPI, service: Service) -> None:
    @app.get("/health/live")
    async def live() -> schemas.Health:
        """Whether the process answers."""
        return schemas.Health(status="live")

    @app.get("/health/ready")
    def ready() -> schemas.Health:
        """Whether the models compute: every one encodes a text."""
        service.ready()
        return schemas.Health(status="ready")

    @app.get("/info")
    def info() -> schemas.Info:
        """The models with their cards, data and evaluations, and the limits of requests."""
        return service.info()

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Metrics in the text format of Prometheus."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)


def _embeddings(embedded: Embedded, request: schemas.EmbeddingRequest) -> schemas.Embeddings:
    width = embedded.vectors.shape[1]
    if request.dimensions not in (None, width):
        raise InputError(f"`dimensions` must be {width} or left out (got {request.dimensions})")
    values: list[Any] = embedded.vectors.tolist()
    if request.encoding_format == "base64":
        rows = embedded.vectors.astype("<f4")
        values = [b64encode(row.tobytes()).decode() for row in rows]
    return schemas.Embeddings(
        model=embedded.model,
        version=embedded.version,
        data=[schemas.Embedding(index=at, embedding=value) for at, value in enumerate(values)],
        usage=schemas.Usage(prompt_tokens=embedded.tokens, total_tokens=embedded.tokens),
    )
