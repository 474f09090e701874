"""Verdicts: whether the graph, the text and the ensemble help a trained model.

`verdict.json` in the folder of a run is the only source of these answers; what they mean is
defined in docs/evaluation.md.
"""

import json
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Literal

from edgeformers.data.card.phrasing import counted
from edgeformers.decode import decode_json
from edgeformers.errors import FormatError
from edgeformers.files import write_atomic
from edgeformers.inference.model_card import VERDICT
from edgeformers.locks import single_writer
from edgeformers.report.formatting import format_signed, metric_name

VERSION = 1  # of verdict.json
ALPHA = 0.05  # the rate at which a verdict may wrongly say that something helps

Question = Literal["graph", "text", "ensemble"]
Finding = Literal["helps", "unclear", "no", "hurts"]

SENTENCES: dict[Finding, str] = {
    "helps": "The {question} helps: predictions are worse without it.",
    "unclear": "The {question} may help, but the gain is not significant.",
    "no": "The {question} does not help here: predictions are as good without it.",
    "hurts": "The {question} hurts here: predictions are better without it.",
}
NO_QUESTION = "The model uses only the text or only the graph, so there is nothing to compare."
NOT_TESTED = (
    "Whether the graph and the text help has not been tested; test it with: "
    "edgeformers evaluate RUN --ablate-inputs"
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer to one question, with the gain over the alternative that decided it.

    The interval and the p-value are corrected for the number of questions (Holm).
    """

    question: Question
    finding: Finding
    alternative: str
    gain: float
    low: float
    high: float
    p_value: float
    gains: dict[str, float] = field(default_factory=dict)  # over every alternative

    @property
    def sentence(self) -> str:
        return SENTENCES[self.finding].format(question=self.question)

    def evidence(self, metric: str) -> str:
        """+10.3 Macro-F1 (interval +8.1 to +12.4) compared with texts hidden."""
        gain, low, high = (format_signed(v, metric) for v in (self.gain, self.low, self.high))
        name = metric_name(metric)
        return f"{gain} {name} (interval {low} to {high}) compared with {self.alternative}"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether the inputs and the ensemble of a model help on the test part."""

    task: str
    model: str
    metric: str
    examples: int
    sources: int
    answers: list[Answer]
    version: int = VERSION

    @property
    def sentence(self) -> str:
        """The answers to all questions."""
        return " ".join(answer.sentence for answer in self.answers) or NO_QUESTION

    @property
    def evidence(self) -> list[str]:
        """The gain behind each answer."""
        where = (
            f"on {counted(self.examples, 'test example', 'test examples')} of "
            f"{counted(self.sources, 'source', 'sources')}"
        )
        return [
            f"{answer.question.capitalize()}: {answer.evidence(self.metric)}, {where}."
            for answer in self.answers
        ]

    def write(self, run: str | PathLike[str]) -> None:
        """Store the verdict in the folder of a run."""
        folder, text = Path(run).expanduser(), json.dumps(asdict(self), indent=1, allow_nan=False)
        with single_writer(folder, folder=True):
            write_atomic(folder / VERDICT, text + "\n")


def read_verdict(run: str | PathLike[str]) -> Verdict | None:
    """The verdict in the folder of a run; None if there is none."""
    path = Path(run).expanduser() / VERDICT
    if not path.is_file():
        return None
    remedy = f"test again with: edgeformers evaluate {run} --ablate-inputs"
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is damaged ({error}); {remedy}") from error
    return decode_json(Verdict, text, source=str(path), version=VERSION, remedy=remedy)
