"""The suites of `make torture`: what each tries, how often, and what may happen."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A module with `cases(seed)`, the same each time, and `run(case)`, which gives an Outcome."""

    module: str
    count: int  # cases of the full suite
    short: int  # cases that `make test` runs
    title: str
    target: str
    labels: Mapping[str, str] = field(default_factory=dict)  # of kinds of outcomes, for tables
    good: frozenset[str] = frozenset({"accepted", "rejected"})  # kinds of outcomes
    at_least: Mapping[str, int] = field(default_factory=dict)  # outcomes of each kind
    at_most: Mapping[str, int] = field(default_factory=dict)  # of other kinds; 0 by default
    shows_cost: bool = False  # the largest time and memory until a rejection, in tables
    timeout: float = 300.0  # seconds per case, after which its process is killed

    def is_failure(self, kind: str) -> bool:
        """Whether a case of this kind of outcome is one that should not have happened."""
        return kind not in self.good

    def result(self, kinds: Mapping[str, int], count: int) -> str:
        """The verdict on these numbers of outcomes by kind, of so many that are wanted."""
        failures = {kind: number for kind, number in kinds.items() if self.is_failure(kind)}
        if any(number > self.at_most.get(kind, 0) for kind, number in failures.items()):
            return "missed"
        is_enough = all(kinds.get(kind, 0) >= number for kind, number in self.at_least.items())
        return "met" if is_enough and sum(kinds.values()) >= count else "not finished"


SUITES: dict[str, Suite] = {
    "tables": Suite(
        module="tests.torture.hostile_tables",
        count=10_000,
        short=40,
        title="hostile tables through `prepare`",
        target="no tracebacks",
        labels={"accepted": "prepared", "silent": "inconsistent", "crash": "tracebacks"},
    ),
    "models": Suite(
        module="tests.torture.hostile_models",
        count=1_000,
        short=12,
        title="corrupted or hostile folders of models, networks and runs",
        target="no crashes, 500 rejected within 2 s and 1 GB",
        at_least={"rejected": 500},
        shows_cost=True,
        labels={"accepted": "harmless"},
    ),
    "bits": Suite(
        module="tests.torture.flipped_bits",
        count=1_000,
        short=4,
        title="one flipped bit in a network file, then `train`",
        target="none silent, no crashes",
        labels={"accepted": "without effect"},
    ),
    "kills": Suite(
        module="tests.torture.kills",
        count=200,
        short=5,
        title="SIGKILL of `prepare`, `train`, `embed`, `report` and `reproduce` at random moments",
        target="nothing lost or left behind, equal results",
        labels={"accepted": "finished by the next run", "silent": "with a loss"},
    ),
    "disk": Suite(
        module="tests.torture.full_disks",
        count=275,
        short=5,
        title="full disks: 50 failing writes and 5 small file systems for each of these commands",
        target="one sentence, nothing left behind",
        labels={"rejected": "one sentence", "silent": "left something behind"},
    ),
    "writers": Suite(
        module="tests.torture.writers",
        count=50,
        short=5,
        title="two processes that write the same output",
        target="one rejected, the other undisturbed",
        labels={"silent": "disturbed"},
    ),
    "null_verdicts": Suite(
        module="tests.torture.null_verdicts",
        count=200,
        short=1,
        title="networks in which graph or text cannot help, then a verdict",
        target="at most 16 say that it helps",
        labels={"accepted": "do not say that it helps", "silent": "say so"},
        at_most={"silent": 16},
    ),
    "known_effects": Suite(
        module="tests.torture.known_effects",
        count=50,
        short=0,
        title="networks in which graph or text helps, then a verdict",
        target="at least 45 say so",
        labels={"accepted": "say so", "silent": "do not"},
        at_most={"silent": 5},
    ),
}
