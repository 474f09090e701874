"""What requests and answers consist of; FastAPI validates with these and documents them."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from edgeformers.config import Task
from edgeformers.data.types import Side
from edgeformers.inference.explain import Recommendation


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("it contains a NUL character; remove it")
    return text


NodeId = Annotated[str, AfterValidator(_without_nul)]
Text = Annotated[str, AfterValidator(_without_nul)]


class Request(BaseModel):
    """The body of a request; an unknown field is an error."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(None, description="The name of a served run; by default the first.")


class Answer(BaseModel):
    """An answer, with the model that gave it."""

    model: str
    version: str = Field(description="The fingerprint of the model's files.")


class EdgeIn(BaseModel):
    """An edge: two node ids, known or not, and a text."""

    model_config = ConfigDict(extra="forbid")

    source: NodeId
    target: NodeId
    text: Text = ""


class OwnEdge(BaseModel):
    """An edge of a new node: the node at the other end and the text."""

    model_config = ConfigDict(extra="forbid")

    target: NodeId
    text: Text = ""


class PredictRequest(Request):
    """Edges to predict the labels of."""

    edges: list[EdgeIn]
    ablations: bool = Field(False, description="Also predict from the text or the nodes alone.")


class Prediction(BaseModel):
    """The label of an edge: a name, several names, or a number."""

    label: str | list[str] | float
    probabilities: dict[str, float] | None = Field(None, description="None for numbers.")


class EdgePrediction(Prediction):
    """The label of an edge, with `ablations` also from a part of what the model reads."""

    text_only: Prediction | None = Field(None, description="With two unknown nodes.")
    node_only: Prediction | None = Field(None, description="Without the text.")


class Predictions(Answer):
    """Predicted labels, in the order of the edges."""

    predictions: list[EdgePrediction]


class Recommendations(Answer):
    """The recommendations to a node, best first."""

    node: str | None = Field(description="None for a new node.")
    recommendations: list[Recommendation]


class RecommendRequest(Request):
    """Nodes of the network, or the edges of a new node, to recommend targets to."""

    nodes: list[NodeId] | None = None
    edges: list[OwnEdge] | None = None
    k: int = Field(10, ge=1, le=1_000)
    exclude_seen: bool = True
    explain: int = Field(0, ge=0, le=20, description="Reasons per recommendation.")


class RecommendationLists(Answer):
    """Recommendations to several nodes, in the order of the request."""

    results: list[Recommendations]


class ModelInfo(BaseModel):
    """A served run."""

    name: str
    version: str
    task: Task
    backbone: str
    loaded_at: float = Field(description="Unix seconds.")


class Models(BaseModel):
    """The served runs, and those that a rollback would restore.

    A request that names no model is answered by the first that can.
    """

    models: list[ModelInfo]
    previous: list[ModelInfo]


class NodeMatch(BaseModel):
    """A node of the network."""

    id: str
    side: Side | None = Field(description="None if the network has one node type.")
    edges: int


class NodeMatches(Answer):
    """The nodes whose ids contain the query: exact matches, then prefixes, then others."""

    nodes: list[NodeMatch]
    total: int = Field(description="How many nodes match.")


class NodeEdge(BaseModel):
    """An edge of a node, with its text."""

    source: str
    target: str
    text: str
    label: str | list[str] | float | None = None


class NodeEdges(Answer):
    """A page of the edges of a node, the last ones of the network first."""

    edges: list[NodeEdge]
    total: int = Field(description="How many edges the node has.")
    next: str | None = Field(description="The cursor of the next page; None on the last one.")


class Problem(BaseModel):
    """Problem details of RFC 9457."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str


Status = Literal["live", "ready"]


class Health(BaseModel):
    """That the server runs, or that it computes."""

    status: Status
