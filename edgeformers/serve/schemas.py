"""What requests and answers consist of; FastAPI validates with these and documents them."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, model_validator
from typing_extensions import TypeAliasType

from edgeformers.config import Task
from edgeformers.data.types import Side
from edgeformers.inference.candidate_filter import CandidateFilter
from edgeformers.inference.explain import Recommendation
from edgeformers.inference.fitted_links import SimilarNode

NO_TEXT = re.compile("[\0\ud800-\udfff]")  # NUL and lone surrogates
MOST_FIELDS = 50  # of an object in a request


def _plain(text: str) -> str:
    if found := NO_TEXT.search(text):
        raise ValueError(f"it contains the character {found[0]!a}, which no text has; remove it")
    return text


NodeId = Annotated[str, AfterValidator(_plain)]
Text = Annotated[str, AfterValidator(_plain)]


class Body(BaseModel):
    """A part of the body of a request; an unknown field is an error."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, values: object) -> object:
        if isinstance(values, dict) and len(values) > MOST_FIELDS:  # each would be an error
            raise ValueError(f"it has {len(values):,} fields")
        return values


class Request(Body):
    """The body of a request."""

    model: str | None = Field(None, description="The name of a served run; by default the first.")


class Answer(BaseModel):
    """An answer, with the model that gave it."""

    model: str
    version: str = Field(description="The fingerprint of the model's files.")


class EdgeIn(Body):
    """An edge: two node ids, known or not, and a text."""

    source: NodeId
    target: NodeId
    text: Text = ""


class OwnEdge(Body):
    """An edge of a new node: the node at the other end and the text."""

    target: NodeId
    text: Text = ""


class NewEdge(EdgeIn):
    """An edge that has arrived."""

    label: Text | None = None
    time: Annotated[float, Field(strict=True)] | Text | None = Field(
        None, description="A number of Unix seconds, or a text as `prepare` reads it."
    )


class AddRequest(Body):
    """Edges that have arrived, in their order."""

    edges: Annotated[list[NewEdge], FailFast()]


class Added(Answer):
    """How many edges were stored, and how many were there already."""

    added: int
    duplicates: int


class Removed(Answer):
    """How many edges of a node were removed."""

    node: str
    removed: int


class PredictRequest(Request):
    """Edges to predict the labels of."""

    edges: Annotated[list[EdgeIn], FailFast()]
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


class ChangedRecommendations(Answer):
    """The recommendations to a node with all its edges, and without some of them."""

    node: str
    before: list[Recommendation]
    after: list[Recommendation]


class SimilarNodes(Answer):
    """The nodes with the most similar vectors, best first; the score is the cosine."""

    node: str
    similar: list[SimilarNode]


class Filter(Body):
    """Which targets may be recommended: those that pass all conditions."""

    allow: Annotated[list[NodeId], FailFast()] = Field(
        default_factory=list, description="The only ids; empty: all."
    )
    deny: Annotated[list[NodeId], FailFast()] = Field(default_factory=list)
    labels: Annotated[list[Text], FailFast()] = Field(
        default_factory=list, description="Node labels of which a target must have one."
    )

    def candidates(self) -> CandidateFilter | None:
        """The filter of the library; None if everything passes."""
        if not (self.allow or self.deny or self.labels):
            return None
        return CandidateFilter(allow=self.allow or None, deny=self.deny, labels=self.labels)


class RecommendRequest(Request):
    """Nodes of the network, or the edges of a new node, to recommend targets to."""

    nodes: Annotated[list[NodeId], FailFast()] = Field(default_factory=list)
    edges: Annotated[list[OwnEdge], FailFast()] = Field(default_factory=list)
    k: int = Field(10, ge=1, le=1_000)
    exclude_seen: bool = True
    explain: int = Field(0, ge=0, le=20, description="Reasons per recommendation.")
    filter: Filter = Field(default_factory=Filter)


class RecommendationLists(Answer):
    """Recommendations to several nodes, in the order of the request."""

    results: list[Recommendations]


class NodeIn(Body):
    """A node of the network."""

    node: NodeId
    side: Side = "source"


#: A named type, because an annotated one cannot be part of a union.
Inputs = TypeAliasType("Inputs", Annotated[list[Text | EdgeIn | NodeIn], FailFast()])


class EmbeddingRequest(Request):
    """Inputs to encode, as for the embeddings API of OpenAI.

    A string is the text of an edge between two unknown nodes. All inputs are edges or all are
    nodes.
    """

    input: Text | EdgeIn | NodeIn | Inputs
    encoding_format: Literal["float", "base64"] = Field(
        "float", description="base64: of the numbers as little-endian float32."
    )
    dimensions: int | None = Field(None, description="Must be the width of the vectors, if given.")
    user: str | None = Field(None, description="Ignored.")


class Embedding(BaseModel):
    """The vector of an input."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """The number of tokens that were encoded, with special tokens; 0 for nodes."""

    prompt_tokens: int
    total_tokens: int


class Embeddings(Answer):
    """Vectors in the order of the inputs."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    usage: Usage


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


class ModelDetails(ModelInfo):
    """A served run with everything that is known about it."""

    width: int = Field(description="Of the vectors of edges or nodes.")
    labels: list[str] = Field(description="Those that are predicted; empty for links and numbers.")
    network: dict[str, Any] = Field(description="The data: its name, origin, size and split.")
    results: dict[str, Any] = Field(description="Evaluations, by the part of the split.")
    index: dict[str, Any] | None = Field(description="How candidates are searched; None: exactly.")
    card: str = Field(description="The model card in Markdown.")


class Info(BaseModel):
    """What is served, by which version of the library, and with which limits."""

    edgeformers: str
    models: list[ModelDetails]
    limits: dict[str, int]


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
