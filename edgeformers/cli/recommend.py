"""The commands that recommend: recommend, and index, which makes it fast."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from edgeformers.cli.command import (
    ALL_EDGES,
    ENGINE,
    OUT,
    RunCommand,
    argument,
    leave_pandas_out,
    option,
)
from edgeformers.errors import InputError

if TYPE_CHECKING:
    from edgeformers.data.node_index import NodeIndex
    from edgeformers.estimators import Reason, Recommendation
    from edgeformers.inference.candidate_filter import CandidateFilter
    from edgeformers.inference.fitted_links import FittedLinkPredictor

REASON_CHARACTERS = 200  # of a text in the terminal; --full-text and --json print all of it
REASON_KINDS = {
    "history": "because of",
    "other_history": "its other edges",
    "popularity": "popularity, the same for everybody",
    "rest": "the rest",
    "quote": "written by",
}
REASON_COLUMNS = f"{'adds':>14}{'without':>9}"
REASON_NOTE = (
    "adds: sums to the score. without: how the score changes if these edges are removed, computed "
    "again."
)
UNREAD_NOTE = "Not read: {} after training; to read them, pass --all-edges."
NO_RATINGS_NOTE = (
    "The network has neither ratings nor --positive labels: reasons are chosen by what they add, "
    "and may be complaints."
)


@dataclass(frozen=True, kw_only=True)
class Recommend(RunCommand):
    """Recommend targets to a source, a new one, or all of them.

    With --explain, a recommendation comes with what decided, and with what its score consists of:
    edges of the source that speak for this target in particular, its other edges, what is the same
    for everybody, and the rest; then what others wrote about the target.
    """

    EXAMPLES = """\b
Examples:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers train link-prediction network -o run-links --recipe fast
  edgeformers recommend run-links user-000001 -k 3 --explain 2
  edgeformers recommend run-links --likes "item-000001=My tent is excellent." --likes item-000009
  edgeformers recommend run-links --all -o tonight.parquet
"""

    node: str | None = argument("Id of the source.", None)
    k: int = option("Number of recommendations.", 10, names=["-k"])
    likes: list[str] | None = option(
        "An edge of a new source: a target, and a text if there is one. Repeatable.",
        metavar="TARGET=TEXT",
    )
    explain: int = option("Edges of the source to show as reasons for each recommendation.", 0)
    full_text: bool = option("With --explain, do not shorten texts.", False)
    include_seen: bool = option("Include targets that are already linked.", False)
    all_edges: bool = option(ALL_EDGES, False)
    allow: list[str] | None = option(
        "Recommend only these: an id, or a file with an id per line. Repeatable.",
        metavar="ID|FILE",
    )
    deny: list[str] | None = option(
        "Never recommend these: an id, or a file with an id per line. Repeatable.",
        metavar="ID|FILE",
    )
    label: list[str] | None = option("Recommend only nodes with this node label. Repeatable.")
    everyone: bool = option("Recommend to all sources.", False, names=["--all"])
    out: Path | None = option("With --all, output file: .parquet, .csv or .jsonl.", names=OUT)
    engine: str = option(f"With --all: {ENGINE}", "local")

    def run(self) -> None:
        from edgeformers.inference.explain import knows_favorable
        from edgeformers.inference.fitted_links import FittedLinkPredictor

        self._check()
        if self.out is not None:
            self._recommend_to_all(self.out)
            return
        predictor, exclude_seen = self.open(), not self.include_seen
        if not isinstance(predictor, FittedLinkPredictor):
            command = f"edgeformers predict {self.folder} EDGES.csv -o OUT.csv"
            raise InputError(f"{self.folder} classifies edges; use: {command}")
        edges = self._edges(predictor.nodes)
        if self.all_edges:
            predictor.read_all_edges(show=not self.quiet)
        candidates = self._candidates()
        recommendations = predictor.recommend(
            self.node,
            self.k,
            exclude_seen=exclude_seen,
            edges=edges,
            explain=self.explain,
            candidates=candidates,
        )
        lines = recommendation_lines(recommendations, full_text=self.full_text)
        if len(recommendations) < self.k:
            lines.append(self._why_no_more(predictor, len(recommendations)))
        if self.explain and not knows_favorable(predictor.network.graph):
            lines.append(NO_RATINGS_NOTE)
        values = [asdict(recommendation) for recommendation in recommendations]
        unread = [] if self.as_json or self.all_edges else _unread_note(predictor)
        self.print({"node": self.node, "recommendations": values}, *lines, *unread)

    def _why_no_more(self, predictor: "FittedLinkPredictor", count: int) -> str:
        """Which targets are left out, with the options that bring them back."""
        from edgeformers.data.card.phrasing import counted, listed

        hidden = int(predictor.scorer.is_hidden.sum())
        others = len(predictor.scorer.candidates) - count
        reasons = []
        if hidden:
            reasons.append("no edges" if self.all_edges else "no training edges (--all-edges)")
        if not self.include_seen and others > hidden:
            reasons.append("a link from this source (--include-seen)")
        if self.allow or self.deny or self.label:
            reasons.append("been excluded by --allow, --deny or --label")
        if not reasons:
            return "There are no other targets."
        have = counted(others, "other target has", "other targets have")
        return f"{have} {listed(reasons, 'or')}."

    def _recommend_to_all(self, out: Path) -> None:
        from edgeformers.inference.batch_inference import write_recommendations

        leave_pandas_out()
        count = write_recommendations(
            self.folder,
            out,
            self.k,
            network=self.network,
            exclude_seen=not self.include_seen,
            candidates=self._candidates(),
            all_edges=self.all_edges,
            engine=self.engine,  # type: ignore[arg-type]  # checked there
            device=self.device,
            show=not self.quiet,
        )
        line = f"{count:,} recommendations: {out}"
        unread = []
        if not (self.as_json or self.all_edges):
            unread = _unread_note(cast("FittedLinkPredictor", self.open()))
        self.print({"out": str(out), "recommendations": count}, line, *unread)

    def _candidates(self) -> "CandidateFilter | None":
        from edgeformers.inference.candidate_filter import CandidateFilter

        if not (self.allow or self.deny or self.label):
            return None
        return CandidateFilter(
            allow=_listed(self.allow) if self.allow else None,
            deny=_listed(self.deny or []),
            labels=self.label or (),
        )

    def _edges(self, nodes: "NodeIndex") -> list[tuple[str, str]] | None:
        """The edges of a new source; an id may contain `=`."""
        if not self.likes:
            return None
        edges = []
        for like, number in zip(self.likes, nodes.numbers(self.likes, "target"), strict=True):
            target, _, text = (like, "", "") if number >= 0 else like.partition("=")
            edges.append((target, text))
        nodes.known_numbers([target for target, _ in edges], "target")  # raises if one is unknown
        return edges

    def _check(self) -> None:
        if [self.node is not None, bool(self.likes), self.everyone].count(True) != 1:
            raise InputError(
                "give one of these: the id of a source, --all, or --likes for a new source"
            )
        if self.everyone and self.out is None:
            raise InputError("--all needs an output file: -o FILE.parquet")
        if not self.everyone and self.out is not None:
            raise InputError("-o needs --all; the recommendations to one source are printed")
        if not self.everyone and self.engine != "local":
            raise InputError("--engine needs --all; leave it out for one source")
        if self.everyone and self.explain:
            raise InputError("--explain works for one source; leave out --all")


@dataclass(frozen=True, kw_only=True)
class Index(RunCommand):
    """Encode the nodes of a link run, to recommend fast.

    The index is written to RUN/index. `recommend` and `serve` use it from then on.
    """

    EXAMPLES = """\b
Examples:
  edgeformers prepare simulated -o network --edges 2000
  edgeformers train link-prediction network -o run-links --recipe fast
  edgeformers index run-links
  edgeformers recommend run-links user-000001
"""

    def run(self) -> None:
        from edgeformers.inference.fitted_links import FittedLinkPredictor
        from edgeformers.inference.index import FOLDER, LinkIndex

        predictor = self.open()
        if not isinstance(predictor, FittedLinkPredictor):
            raise InputError(f"{self.folder} classifies edges; index a link-prediction run")
        index = LinkIndex.build(predictor, self.folder / FOLDER, show=not self.quiet)
        facts = index.facts
        self.print(
            {"index": str(index.folder), **asdict(facts)},
            f"{index.folder}: {facts.targets:,} targets, {facts.width:,} columns, "
            f"{facts.bytes / 1e6:,.1f} MB, in {facts.seconds:.1f} s",
            f"{facts.kind} search, recall@10 {facts.recall_at_10:.4f} on {facts.queries} sources",
        )


def _listed(values: list[str]) -> list[str]:
    """Ids, and those in files of one id per line."""
    listed = []
    for value in values:
        path = Path(value)
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else [value]
        listed += [line for line in map(str.strip, lines) if line]
    return listed


def recommendation_lines(
    recommendations: "list[Recommendation]", *, full_text: bool = False
) -> list[str]:
    """A line per recommendation, followed by its reasons and quotes."""
    from edgeformers.report.formatting import format_table

    rows = [
        [str(i), r.node, f"{r.score:.3f}", r.decision] for i, r in enumerate(recommendations, 1)
    ]
    lines: list[str] = []
    for line, one in zip(format_table(rows, left=(1, 3)), recommendations, strict=True):
        lines.append(line.rstrip())
        reasons = [reason for reason in [*one.because, *one.quotes] if round(reason.weight, 3)]
        lines += [REASON_COLUMNS] if reasons else []
        lines += [_reason_line(reason, full_text) for reason in reasons]
    return [*lines, REASON_NOTE] if REASON_COLUMNS in lines else lines


def _unread_note(predictor: "FittedLinkPredictor") -> list[str]:
    """How many links came after training and are not read, if any."""
    from edgeformers.data.card.phrasing import counted

    number = predictor.num_unread
    return [UNREAD_NOTE.format(counted(number, "link", "links"))] if number else []


def _reason_line(reason: "Reason", full_text: bool) -> str:
    from edgeformers.data.card.phrasing import shorten

    weight = "" if reason.kind == "quote" else f"{reason.weight:.3f}"
    # 0.0 - x, because -x would show an effect of 0 as -0.000
    effect = "" if reason.effect is None else f"{0.0 - round(reason.effect, 3):+.3f}"
    kind = REASON_KINDS.get(reason.kind, reason.kind.replace("_", " "))
    node = f" {reason.node}" if reason.node else ""
    label = f" ({reason.label})" if reason.label else ""
    text = reason.text if full_text else shorten(reason.text, REASON_CHARACTERS)
    return f"{weight:>14}{effect:>9}  {kind}{node}{label}" + (f": {text}" if text else "")
