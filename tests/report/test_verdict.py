import json

import pytest

from edgeformers.errors import FormatError
from edgeformers.inference.model_card import VERDICT
from edgeformers.report.verdict import NO_QUESTION, SENTENCES, read_verdict
from tests.report.examples import make_verdict


@pytest.mark.parametrize("graph", SENTENCES)
@pytest.mark.parametrize("text", SENTENCES)
def test_every_question_has_one_sentence(graph, text):
    verdict = make_verdict(graph, text)
    assert verdict.sentence == " ".join(
        SENTENCES[finding].format(question=question)
        for question, finding in (("graph", graph), ("text", text))
    )
    assert len({answer.sentence for answer in verdict.answers}) == 2


def test_the_evidence_names_gain_interval_alternative_and_examples():
    first, _ = make_verdict().evidence
    for part in ("Graph", "+13.0 Macro-F1", "+10.0 to +16.0", "nodes hidden", "600", "40 sources"):
        assert part in first


def test_a_model_of_one_input_has_nothing_to_compare():
    verdict = make_verdict()
    verdict.answers.clear()
    assert (verdict.sentence, verdict.evidence) == (NO_QUESTION, [])


def test_a_stored_verdict_is_read_back(tmp_path):
    assert read_verdict(tmp_path) is None
    make_verdict().write(tmp_path)
    assert read_verdict(tmp_path) == make_verdict()
    assert json.loads((tmp_path / VERDICT).read_text())["version"] == 1


@pytest.mark.parametrize("text", ["", "[]", '{"version": 1}', '{"version": 99}', "\xff"])
def test_a_damaged_verdict_is_answered_with_the_command_that_makes_it_again(tmp_path, text):
    (tmp_path / VERDICT).write_bytes(text.encode("latin-1"))
    with pytest.raises(FormatError, match=f"{VERDICT}.*--ablate-inputs"):
        read_verdict(tmp_path)
