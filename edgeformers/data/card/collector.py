"""Collects findings with their texts, and the changes to splits that they suggest."""

import math
import shlex
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from edgeformers.data.card.card import DataCard, Finding, Severity
from edgeformers.data.card.phrasing import share_of
from edgeformers.data.splits import DEFAULT_SPLITS, SplitConfig

_OPTIONS = "{options}"


class FindingCollector:
    """The findings of a card; all that advise `--split` options advise the same ones.

    `--split` replaces all default splits, so the options list every split of the network. If it
    is not known how the splits were made, the default ones are changed.
    """

    def __init__(self, card: DataCard) -> None:
        specs = [split.spec for split in card.splits if split.spec]
        self.configs = {c.name: c for c in map(SplitConfig.parse, specs)}
        self._suggested = dict(self.configs) or {c.name: c for c in DEFAULT_SPLITS}
        self._findings: list[Finding] = []

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
        remedy = text.get(advice, text["advice"]).format(**values, options=_OPTIONS)
        self._findings.append(
            Finding(severity, about or name, sentence, remedy, numbers or {}, list(splits))
        )

    def add_share(
        self,
        name: str,
        count: int,
        total: int,
        things: str,
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

    def change_splits(
        self, names: Collection[str], *, links_only: bool = False, **changes: Any
    ) -> None:
        """Suggest a change of the named splits.

        With `links_only`, random splits (for edge classification) stay as they are unless there
        are no others.
        """
        known = [name for name in self._suggested if name in names or not self.configs]
        if links_only:
            known = [name for name in known if self._suggested[name].how != "random"] or known
        for name in known:
            self._suggested[name] = replace(self._suggested[name], **changes)

    def findings(self) -> list[Finding]:
        """All findings, warnings first, with the suggested `--split` options."""
        texts = (config.to_text() for config in self._suggested.values())
        options = " ".join(f"--split {shlex.quote(text)}" for text in texts)
        ordered = sorted(self._findings, key=lambda finding: finding.severity != "warning")
        return [replace(each, advice=each.advice.replace(_OPTIONS, options)) for each in ordered]


@cache
def _texts() -> dict[str, dict[str, str]]:
    return tomllib.loads(files(__package__).joinpath("findings.toml").read_text("utf-8"))
