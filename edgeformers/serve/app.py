"""The REST API: each route checks its input and calls one method of the service."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Query

from edgeformers import __version__
from edgeformers.data.types import Side
from edgeformers.errors import InputError
from edgeformers.serve import schemas
from edgeformers.serve.problems import add_error_handlers
from edgeformers.serve.service import Service

K = Annotated[int, Query(ge=1, le=1_000, description="Number of recommendations.")]
Explain = Annotated[int, Query(ge=0, le=20, description="Reasons per recommendation.")]
ModelName = Annotated[str | None, Query(description="The name of a served run.")]


def create_app(service: Service) -> FastAPI:
    """The application of a service, which it closes at the end."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(title="edgeformers", version=__version__, lifespan=lifespan, redoc_url=None)
    app.state.service = service
    add_error_handlers(app)
    _add_models(app, service)
    _add_health(app, service)
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
        if (request.nodes is None) == (request.edges is None):
            raise InputError("give either `nodes` of the network or the `edges` of a new node")
        options: dict[str, Any] = {
            "exclude_seen": request.exclude_seen,
            "explain": request.explain,
            "model": request.model,
        }
        if request.edges is not None:
            results = [service.recommend_new(request.edges, request.k, **options)]
        else:
            results = service.recommend_all(request.nodes or [], request.k, **options)
        first = results[0]
        return schemas.RecommendationLists(
            model=first.model, version=first.version, results=results
        )


def _add_health(app: FastAPI, service: Service) -> None:
    @app.get("/health/live")
    async def live() -> schemas.Health:
        """Whether the process answers."""
        return schemas.Health(status="live")

    @app.get("/health/ready")
    def ready() -> schemas.Health:
        """Whether the models compute: every one encodes a text."""
        service.ready()
        return schemas.Health(status="ready")
