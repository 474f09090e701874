"""The routes of the REST API: each calls one method of the service."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import FastAPI, Header, Query
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.convertors import PathConvertor, register_url_convertor

from edgeformers.data.types import Side
from edgeformers.errors import InputError
from edgeformers.serve import schemas
from edgeformers.serve.service import Embedded, Service

K = Annotated[int, Query(ge=1, le=1_000, description="Number of recommendations.")]
Explain = Annotated[int, Query(ge=0, le=20, description="Reasons per recommendation.")]
Ids = Annotated[Sequence[schemas.NodeId], Query(description="Target ids. Repeatable.")]
Labels = Annotated[Sequence[schemas.Text], Query(description="Node labels. Repeatable.")]
ModelName = Annotated[str | None, Query(description="The name of a served run.")]


class NodeConvertor(PathConvertor):
    """A node id in a path: any text, also with slashes and line breaks."""

    regex = r"(?s:.*)"


register_url_convertor("node", NodeConvertor())


def add_routes(app: FastAPI, service: Service) -> None:
    """Add all routes of the API to an application."""
    for add in (_add_models, _add_edges, _add_nodes, _add_recommendations, _add_operations):
        add(app, service)


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


def _add_edges(app: FastAPI, service: Service) -> None:
    @app.post("/v1/edges/predict")
    def predict(request: schemas.PredictRequest) -> schemas.Predictions:
        """Predict the labels of edges."""
        return service.predict_edges(
            request.edges, ablations=request.ablations, model=request.model
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

    @app.post("/v1/edges")
    def add_edges(
        request: schemas.AddRequest,
        idempotency_key: Annotated[
            str | None,
            Header(max_length=200, description="A repeated request with the same key is ignored."),
        ] = None,
    ) -> schemas.Added:
        """Store edges that have arrived; answers once they are on disk, and reads them at once."""
        return service.add_edges(request.edges, idempotency_key)


def _add_nodes(app: FastAPI, service: Service) -> None:
    @app.get("/v1/nodes")
    def search_nodes(
        query: schemas.NodeId = "",
        side: Side | None = None,
        limit: Annotated[int, Query(ge=1, le=100)] = 20,
        model: ModelName = None,
    ) -> schemas.NodeMatches:
        """Find nodes by a part of their id."""
        return service.nodes.search(query, side=side, limit=limit, model=model)

    @app.get("/v1/nodes/{node:node}/similar")
    def similar(
        node: str, k: K = 10, side: Side = "source", model: ModelName = None
    ) -> schemas.SimilarNodes:
        """Find the nodes whose vectors are most like that of a node."""
        return service.similar(node, k, side=side, model=model)

    @app.get("/v1/nodes/{node:node}/edges")
    def list_edges(
        node: str,
        side: Side | None = None,
        cursor: Annotated[str | None, Query(description="`next` of the page before.")] = None,
        limit: Annotated[int, Query(ge=1, le=100)] = 20,
        model: ModelName = None,
    ) -> schemas.NodeEdges:
        """List the edges of a node with their texts, page by page."""
        return service.nodes.edges_of(node, side=side, cursor=cursor, limit=limit, model=model)

    @app.delete("/v1/nodes/{node:node}/edges")
    def remove_edges(node: str, side: Side | None = None) -> schemas.Removed:
        """Remove all edges of a node from the store and all answers; the next `prepare` too."""
        return service.remove_edges(node, side=side)


def _add_recommendations(app: FastAPI, service: Service) -> None:
    @app.get("/v1/nodes/{node:node}/recommendations")
    async def recommend(
        node: str,
        k: K = 10,
        exclude_seen: bool = True,
        explain: Explain = 0,
        allow: Ids = (),
        deny: Ids = (),
        label: Labels = (),
        model: ModelName = None,
    ) -> schemas.Recommendations:
        """Recommend targets to a node of the network."""
        chosen = schemas.Filter(allow=list(allow), deny=list(deny), labels=list(label))
        results = await service.start_recommend(
            [node],
            k,
            exclude_seen=exclude_seen,
            explain=explain,
            candidates=chosen.candidates(),
            model=model,
        )
        return results[0]

    @app.post("/v1/recommendations")
    def recommend_many(request: schemas.RecommendRequest) -> schemas.RecommendationLists:
        """Recommend targets to a new node, described by its edges, or to several nodes."""
        if bool(request.nodes) == bool(request.edges):
            raise InputError("give either `nodes` of the network or the `edges` of a new node")
        options: dict[str, Any] = {
            "exclude_seen": request.exclude_seen,
            "explain": request.explain,
            "candidates": request.filter.candidates(),
            "model": request.model,
        }
        if request.edges:
            results = [service.recommend_new(request.edges, request.k, **options)]
        else:
            results = service.start_recommend(request.nodes, request.k, **options).result()
        first = results[0]
        return schemas.RecommendationLists(
            model=first.model, version=first.version, results=results
        )


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
