"""What the numbers of a data card mean for training; findings.toml has the texts.

Splits with the same problem share one finding, which gives the numbers of each.
"""

import math
import shlex
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from edgeformers.data.card.card import (
    CUTS,
    DataCard,
    Finding,
    LabelSummary,
    PartSummary,
    Severity,
    SideSummary,
    TimeSummary,
)
from edgeformers.data.card.phrasing import counted, listed, percent, quoted, share_of
from edgeformers.data.splits import DEFAULT_SPLITS, SplitConfig

# Shares from which something is reported.
MANY_LONG_TEXTS = 0.1
FREQUENT_LABEL, DOMINANT_LABEL = 0.6, 0.8
RARE_LABEL, FEW_EDGES = 0.01, 10  # share and number of labeled edges
MANY_SHARED_NAMES, FEW_NAMES = 0.2, 10  # share of the smaller side; a number that may be chance
HUB, SMALL_SIDE = 0.1, 10  # share of the edges; number of nodes where such a share is normal
MANY_REPEATING_EDGES = 0.05
MANY_EARLY_TIMES = 0.01
# Shares of the held-out edges from which a note becomes a warning.
MANY_SAME_TEXTS = 0.05
MANY_COLD_EDGES = 0.05
MANY_SINGLE_EDGES = 0.3  # of the nodes on the side whose edges are divided

SIDE_NAMES = {"outgoing": "nodes with outgoing edges", "incoming": "nodes with incoming edges"}


@dataclass(frozen=True)
class _Affected:
    """The held-out edges of a split that a finding is about."""

    split: str
    part: PartSummary
    count: int
    example: str = ""

    @property
    def share(self) -> float:
        return self.count / self.part.edges


class _Findings(list[Finding]):
    """The findings of a card, and the options of `prepare` that apply what they advise.

    `--split` replaces all default splits, so the options list every split of the network. If it
    is not known how the splits were made, the default ones are changed.
    """

    def __init__(self, card: DataCard) -> None:
        super().__init__()
        specs = [split.spec for split in card.splits if split.spec]
        self.configs = {c.name: c for c in map(SplitConfig.parse, specs)}
        self.known = dict(self.configs) or {c.name: c for c in DEFAULT_SPLITS}
        self.suggested = dict(self.known)

    def add(
        self,
        name: str,
        severity: Severity = "note",
        *,
        numbers: dict[str, float] | None = None,
        splits: Sequence[str] = (),
        about: str = "",
        advice: str = "advice",
        **values: str,
    ) -> None:
        """Add a finding with the text of this name; `values` fill its placeholders.

        `advice` names a variant of the advice, which is used if the text has it.
        """
        text = _texts()[name]
        sentence = text["sentence"].format(**values)
        sentence = sentence[:1].upper() + sentence[1:]
        remedy = text.get(advice, text["advice"]).format(**values)
        self.append(Finding(severity, about or name, sentence, remedy, numbers or {}, list(splits)))

    def add_share(
        self,
        name: str,
        count: int,
        total: int,
        things: str = "edges",
        *,
        at_least: float = 0.0,
        warn_from: float = math.inf,
        **values: Any,
    ) -> None:
        """Add a finding about `count` of `total` things if any are concerned."""
        if count and count >= at_least * total:
            severity: Severity = "warning" if count >= warn_from * total else "note"
            numbers = {"count": count, "share": count / total}
            subject = share_of(count, total, things)
            self.add(name, severity, numbers=numbers, subject=subject, **values)

    def add_affected(
        self,
        name: str,
        severity: Severity,
        affected: list[_Affected],
        example: str = "",
        advice: str = "advice",
    ) -> None:
        """Add one finding for all affected splits, with the numbers of the worst."""
        worst, splits = _worst(affected), [each.split for each in affected]
        configs = [config for split, config in self.configs.items() if split in splits]
        columns = [
            "the split column"
            if config.column == "split"
            else f"the column {quoted(config.column)}"
            for config in configs
            if config.how == "column"
        ]
        self.add(
            name,
            severity,
            numbers={"count": worst.count, "share": worst.share},
            splits=splits,
            advice="advice_column" if columns else advice,
            subject=_shares(affected),
            example=example or worst.example,
            column=listed(columns),
        )

    def change_splits(
        self, names: Collection[str], *, links_only: bool = False, **changes: Any
    ) -> bool:
        """Suggest a change of the named splits; returns whether there are any to change.

        With `links_only`, random splits (for edge classification) stay as they are unless the
        network has no others.
        """
        known = [name for name in self.suggested if name in names or not self.configs]
        for_links = [name for name, config in self.suggested.items() if config.how != "random"]
        if links_only and for_links:
            known = [name for name in known if name in for_links]
        for name in known:
            self.suggested[name] = replace(self.suggested[name], **changes)
        return bool(known)

    def options(self) -> str:
        """The options of `prepare` that apply the advice, such as `--drop-repeats --split ...`."""
        is_repeated = any(
            each.about in ("identical edges", "leak: identical edge") for each in self
        )
        options = ["--drop-repeats"] if is_repeated else []
        if self.suggested != self.known:
            options += [
                f"--split {shlex.quote(config.to_text())}" for config in self.suggested.values()
            ]
        return " ".join([*options, "--overwrite"] if options else [])


@cache
def _texts() -> dict[str, dict[str, str]]:
    return tomllib.loads(files(__package__).joinpath("findings.toml").read_text("utf-8"))


def with_findings(card: DataCard) -> DataCard:
    """The card with all findings, warnings first, and the options that apply their advice."""
    findings = _Findings(card)
    _add_findings(card, findings)
    ordered = sorted(findings, key=lambda finding: finding.severity != "warning")
    return replace(card, findings=ordered, prepare_options=findings.options())


def _add_findings(card: DataCard, findings: _Findings) -> None:
    edges = card.counts.edges
    if not edges:
        findings.add("no edges", "warning")
        return
    _add_text_findings(card, findings)
    if card.labels is not None:
        _add_label_findings(card.labels, findings)
    for side in card.sides:
        _add_degree_findings(side, edges, findings)
    _add_node_findings(card, findings)
    _add_repeat_findings(card, findings)
    findings.add_share("skipped rows", card.skipped, edges + card.skipped, "rows", warn_from=0.01)
    if (times := card.times) is not None:
        first, last = times.first[:10], times.last[:10]
        findings.add_share("missing times", times.missing, edges)
        findings.add_share("times far off", times.far, edges, first=first, last=last)
        _add_implausible_times(times, edges, findings)
    if (weights := card.weights) is not None:
        findings.add_share("weights", weights.missing + weights.negative, edges)
    _add_split_findings(card, findings)


def _add_text_findings(card: DataCard, findings: _Findings) -> None:
    texts, edges = card.texts, card.counts.edges
    if texts.distinct <= 1 < edges:
        same = "all edges have the same text" + (" or none" if texts.empty else "")
        subject = same if texts.distinct else "no edge has a text"
        findings.add("uninformative texts", "warning", subject=subject)
    elif texts.empty:
        findings.add_share("empty texts", texts.empty, edges, warn_from=0.05)
    if texts.distinct > 1:
        findings.add_share("shared texts", texts.shared, edges, at_least=0.05)
    short, longer = CUTS[:2]
    share, next_share = (card.texts.cut.get(str(limit), 0.0) for limit in (short, longer))
    if share >= MANY_LONG_TEXTS:
        findings.add(
            "long texts",
            numbers={"share": share, "share_at_128": next_share},
            share=percent(share),
            limit=str(short),
            next_share=percent(next_share),
            next_limit=str(longer),
        )


def _add_label_findings(labels: LabelSummary, findings: _Findings) -> None:
    findings.add_share("unlabeled edges", labels.unlabeled, labels.labeled + labels.unlabeled)
    if not labels.labeled or len(labels.balance) < 2:
        return
    frequent = max(labels.balance, key=lambda label: label.count)
    share = frequent.count / labels.labeled
    if labels.kind == "class" and share >= FREQUENT_LABEL:
        findings.add(
            "label balance",
            "warning" if share >= DOMINANT_LABEL else "note",
            numbers={"share": share},
            share=percent(share),
            label=quoted(frequent.name),
        )
    threshold = max(FEW_EDGES, labels.labeled * RARE_LABEL)
    rare = [label for label in labels.balance if label.count < threshold]
    if rare:
        rarest = min(rare, key=lambda label: label.count)
        findings.add(
            "rare labels",
            numbers={"labels": len(rare), "fewest": rarest.count},
            labels=counted(len(rare), "label has", "labels have"),
            share=percent(RARE_LABEL),
            few=str(FEW_EDGES),
            label=quoted(rarest.name),
            count=f"{rarest.count:,}",
        )


def _add_degree_findings(side: SideSummary, edges: int, findings: _Findings) -> None:
    findings.add_share(
        "single edges",
        side.single,
        side.nodes - side.unused,
        SIDE_NAMES.get(side.name, side.name),
        at_least=0.3,
        about=f"single edges, {side.name}",
    )
    if side.nodes > SMALL_SIDE and side.hubs:
        hub, about = side.hubs[0], f"hubs, {side.name}"
        findings.add_share(
            "hubs", hub.count, edges, at_least=HUB, about=about, node=quoted(hub.name)
        )


def _add_node_findings(card: DataCard, findings: _Findings) -> None:
    counts = card.counts
    smaller, shared = min(counts.sources, counts.targets), counts.shared_names
    if shared >= max(MANY_SHARED_NAMES * smaller, FEW_NAMES):
        findings.add_share("two kinds of nodes", shared, counts.sources, "sources", warn_from=0)
    findings.add_share("isolated nodes", counts.isolated, counts.nodes, "nodes")


def _add_repeat_findings(card: DataCard, findings: _Findings) -> None:
    counts, edges = card.counts, card.counts.edges
    findings.add_share("identical edges", counts.identical_edges, edges, warn_from=0.01)
    if counts.repeating_edges >= MANY_REPEATING_EDGES * edges:
        configs = findings.configs.values()
        is_solved = configs and all(c.new_pairs or c.how == "random" for c in configs)
        if not is_solved:
            names = [split.name for split in card.splits]
            findings.change_splits(names, links_only=True, new_pairs=True)
        findings.add(
            "repeated pairs",
            numbers={"pairs": counts.repeated_pairs, "count": counts.repeating_edges},
            advice="advice_new_pairs" if is_solved else "advice",
            pairs=counted(counts.repeated_pairs, "pair of nodes has", "pairs of nodes have"),
            subject=share_of(counts.repeating_edges, edges, "edges"),
        )
    findings.add_share("self-loops", counts.self_loops, edges)


def _add_implausible_times(times: TimeSummary, edges: int, findings: _Findings) -> None:
    early = times.early if times.early and times.early.count > MANY_EARLY_TIMES * edges else None
    found = [("in the future", times.future), ("before 1971", early)]
    subjects = [
        f"{share_of(each.count, edges, 'edges')} have a time {when}, such as {each.name}"
        for when, each in found
        if each
    ]
    if subjects:
        counts = [each.count if each else 0 for _, each in found]
        numbers: dict[str, float] = dict(zip(("future", "early"), counts, strict=True))
        may_be_steps = early is not None and times.first.startswith("1970")
        findings.add(
            "implausible times",
            "warning",
            numbers=numbers,
            advice="advice_numbers" if may_be_steps else "advice",
            subject=listed(subjects),
        )


def _add_split_findings(card: DataCard, findings: _Findings) -> None:
    """Models are scored on the test part, or on validation if test is empty."""
    held_out: list[tuple[str, PartSummary, PartSummary]] = []  # split, training, held-out part
    lacking: dict[str, list[str]] = {}
    for split in card.splits:
        train, parts = split.part("train"), (split.part("test"), split.part("val"))
        part = next((part for part in parts if part and part.edges), None)
        if train is None or not train.edges:
            lacking.setdefault("training", []).append(split.name)
        elif part is None:
            lacking.setdefault("validation or test", []).append(split.name)
        else:
            held_out.append((split.name, train, part))
    for name, splits in lacking.items():
        quotes = listed([quoted(split) for split in splits])
        subject = f"The split {quotes} has" if len(splits) == 1 else f"The splits {quotes} have"
        findings.add("empty part", "warning", splits=splits, subject=subject, part=name)
    for part_name in ("test", "val"):
        comparable = [each for each in held_out if each[2].name == part_name]
        parts_of = {split: part for split, _, part in comparable}
        _add_leaks(card, parts_of, findings)
        _add_cold_nodes(parts_of, findings)
        _add_unseen_labels(comparable, findings)
    for config in findings.configs.values():
        _add_single_edges(card, config, findings)


def _add_leaks(card: DataCard, parts: dict[str, PartSummary], findings: _Findings) -> None:
    for what in ("same_edge", "same_text", "same_pair"):
        overlaps = [(split, part, getattr(part, what)) for split, part in parts.items()]
        affected = [_Affected(s, p, o.edges, o.example) for s, p, o in overlaps if o and o.edges]
        if not affected:
            continue
        if what == "same_edge":
            findings.add_affected("leak: identical edge", "warning", affected)
        elif what == "same_text":
            many = _worst(affected).share >= MANY_SAME_TEXTS
            findings.add_affected("leak: same text", "warning" if many else "note", affected)
        elif findings.change_splits(
            [each.split for each in affected], links_only=True, new_pairs=True
        ):
            findings.add_affected("leak: same pair", "note" if card.labels else "warning", affected)


def _add_cold_nodes(parts: dict[str, PartSummary], findings: _Findings) -> None:
    intended = {config.name for config in findings.configs.values() if config.is_cold}
    by_time = {c.name for c in findings.configs.values() if c.how == "chronological"}
    affected: list[_Affected] = []
    later: list[_Affected] = []
    for split, part in parts.items():
        if part.cold_edges and split not in intended:
            cold = {side: count for side, count in part.cold.items() if count}
            sides = [f"{count:,} of {part.nodes[side]:,} {side}" for side, count in cold.items()]
            of_split = later if split in by_time else affected
            of_split.append(_Affected(split, part, part.cold_edges, listed(sides)))
    if later:
        findings.add_affected("new nodes", "note", later)
    if affected:
        splits = [each.split for each in affected]
        is_changed = findings.change_splits(splits, links_only=True, unseen="drop")
        worst = _worst(affected)
        where = f"in {worst.split} " if len({each.example for each in affected}) > 1 else ""
        severity: Severity = "warning" if worst.share >= MANY_COLD_EDGES else "note"
        advice = "advice" if is_changed else "advice_edges"
        findings.add_affected("cold nodes", severity, affected, where + worst.example, advice)


def _add_unseen_labels(
    held_out: list[tuple[str, PartSummary, PartSummary]], findings: _Findings
) -> None:
    groups: dict[tuple[str, ...], list[_Affected]] = {}  # unseen labels -> splits
    for split, train, part in held_out:
        if train.labels is not None and part.labels is not None:
            pairs = zip(train.labels.balance, part.labels.balance, strict=True)
            unseen = {label.name: label.count for t, label in pairs if label.count and not t.count}
            if unseen:
                affected = _Affected(split, part, sum(unseen.values()))
                groups.setdefault(tuple(unseen), []).append(affected)
    for labels, group in groups.items():
        splits = [each.split for each in group]
        configs = [config for name, config in findings.configs.items() if name in splits]
        is_drawn = all(c.how in ("random", "per_source", "per_target") for c in configs)
        seed = 1 + max((config.seed for config in configs), default=0)
        if is_drawn:
            findings.change_splits(splits, seed=seed)
        findings.add(
            "unseen labels",
            "warning",
            numbers={"labels": len(labels), "count": _worst(group).count},
            splits=splits,
            advice="advice" if is_drawn else "advice_column",
            labels=counted(len(labels), "label occurs", "labels occur"),
            part=group[0].part.name,
            label=quoted(labels[0]),
            seed=str(seed),
        )


def _add_single_edges(card: DataCard, config: SplitConfig, findings: _Findings) -> None:
    """A split that divides the edges of each node cannot divide a single edge."""
    strategy, _, end = config.how.rpartition("_")
    is_dropped = config.unseen in ("drop", f"drop_{end}")
    in_test = not int(config.fractions[0] + config.fractions[1])
    if not strategy.endswith("per") or is_dropped or not in_test:
        return
    names = {"source": ("sources", "outgoing"), "target": ("targets", "incoming")}[end]
    for side in card.sides:
        used = side.nodes - side.unused
        if side.name in names and side.single >= max(1, MANY_SINGLE_EDGES * used):
            name = "single edges in test"
            findings.change_splits([config.name], unseen="drop")
            findings.add_share(name, side.single, used, f"{end}s", splits=[config.name])


def _worst(affected: list[_Affected]) -> _Affected:
    return max(affected, key=lambda each: each.share)


def _shares(affected: list[_Affected]) -> str:
    """'12% of the test edges (1,204)', or '12% and 9% of the test edges (1,204 and 871)'."""
    shares = [percent(each.share) for each in affected]
    counts = [f"{each.count:,}" for each in affected]
    if len(set(shares)) == 1:
        shares = shares[:1]
        counts = counts[:1] if len(set(counts)) == 1 else counts
    return f"{listed(shares)} of the {affected[0].part.name} edges ({listed(counts)})"
