"""LinkPredictor: learns which nodes will be linked, and recommends."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeformers.config import Task
from edgeformers.data.types import Ids, Side
from edgeformers.estimators.base import Estimator, Network
from edgeformers.estimators.build import build_model
from edgeformers.estimators.settings import find_model
from edgeformers.evaluation import PROTOCOLS, LinkProtocol, LinkReport
from edgeformers.evaluation.network_links import link_parts
from edgeformers.inference.ensemble import fit_ensemble
from edgeformers.inference.fitted_links import (
    EdgeTexts,
    FittedLinkPredictor,
    Recommendation,
    make_link_head,
)
from edgeformers.inference.link_scorer import GROUP_NAMES, Ensemble
from edgeformers.inference.network import attach_links, choose_split
from edgeformers.progress import print_message
from edgeformers.training.link_objective import LinkObjective


class LinkPredictor(Estimator[FittedLinkPredictor]):
    """Links between nodes, from the texts of their edges, by Edgeformer-N or another model.

    predictor = LinkPredictor().fit("network")
    predictor.evaluate()
    predictor.recommend("ada", k=5)
    """

    task: Task = "link-prediction"

    def make_objective(self, network: Network, **columns: Any) -> LinkObjective:
        """What `fit` trains: the untrained model with the batches and the loss of its task."""
        graph, from_frame = self._open(network, columns)
        split = choose_split(self.config, graph)
        link_parts(graph, split)  # raises before anything is built
        model, tokens = build_model(self.config, graph, split, self.options)
        reads_text = find_model(self.config).text != "none"
        return LinkObjective(
            FittedLinkPredictor(
                config=self.config,
                options=self.options,
                model=model,
                head=make_link_head(self.config.links, graph.num_nodes).to(self.device),
                tokenizer=tokens.tokenizer(),
                nodes=graph.node_index,
                attached=attach_links(self.config, graph, tokens, reads_text=reads_text),
                carries_network=from_frame,
            )
        )

    def evaluate(
        self, part: str = "test", *, protocols: Sequence[LinkProtocol] = PROTOCOLS
    ) -> dict[str, Any]:
        """Ranking metrics of a part under each protocol, by degree, with 95 % intervals of MRR."""
        return self.fitted_.evaluate(part, protocols=protocols)

    def report(
        self, part: str = "test", *, protocols: Sequence[LinkProtocol] = PROTOCOLS
    ) -> LinkReport:
        """The ranks of a part's links, for comparing two models pair by pair."""
        return self.fitted_.report(self.fitted_.network.part(part), protocols=protocols)

    def embed_nodes(
        self, nodes: Sequence[str] | Ids | None = None, *, side: Side = "source"
    ) -> NDArray[np.float32]:
        """node_repr [n, D] of nodes given by id (on one side) or number; by default of all."""
        return self.fitted_.embed_nodes(nodes, side=side)

    def embed_new_nodes(
        self, nodes: Sequence[EdgeTexts], *, side: Side = "source"
    ) -> NDArray[np.float32]:
        """node_repr [n, D] of nodes that are not in the network.

        Each is given by its edges: (the node at the other end, the text).
        """
        return self.fitted_.embed_new_nodes(nodes, side=side)

    def score(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """The scores of (source, target) pairs; higher means a likelier link."""
        return self.fitted_.score(pairs)

    def recommend(
        self,
        node: str | None = None,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        edges: EdgeTexts | None = None,
        explain: int = 0,
    ) -> list[Recommendation]:
        """The k targets with the highest scores for a source, best first.

        `edges` describes a source that is not in the network, instead of `node`. `exclude_seen`
        leaves out targets that the source is already linked to. `explain` adds that many texts of
        the recommended node's edges: those that contribute most to its score. If texts do not
        count for such a source, by validation, they are the most similar ones, with weight 0. The
        text of an edge from the recommended node to the source comes first, if that is rewarded.
        """
        return self.fitted_.recommend(
            node, k, exclude_seen=exclude_seen, edges=edges, explain=explain
        )

    def _finish(self, objective: LinkObjective) -> FittedLinkPredictor:
        """Fit the ensemble, if the settings ask for one."""
        ensemble = fit_ensemble(objective.fitted) if self.config.links.ensemble else None
        if ensemble is not None:
            self._report_unused_text(ensemble)
        return replace(objective.fitted, ensemble=ensemble)

    def _report_unused_text(self, ensemble: Ensemble) -> None:
        weights = zip(GROUP_NAMES, ensemble.weights[:, 0].tolist(), strict=True)
        unused = [name for name, weight in weights if not weight]
        if unused:
            sources = f" for sources with {' or '.join(unused)}"
            where = sources if len(unused) < len(GROUP_NAMES) else ""
            print_message(
                f"texts do not help to predict links{where}: on validation, components that use "
                "links only rank better, so text gets weight 0",
                show=self.show,
            )
