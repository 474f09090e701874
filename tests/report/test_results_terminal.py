import pytest

from edgeformers.report.results_terminal import results_text
from tests.report.runs import make_results


@pytest.fixture
def results():
    return make_results()


def test_the_terminal_says_the_verdict_and_the_scores_within_its_width(results):
    lines = results_text(results, width=72).splitlines()
    assert max(map(len, lines)) <= 72
    text = " ".join(" ".join(lines).split())
    assert "The graph helps: nodes add to what the text says." in text
    assert "Edgeformer-E both 54.0 (53.0 to 55.0) 54.0" in text
    assert "best achievable 61.0 –" in text
    assert "run 1 Macro-F1 ▁█ 50.0 2" in text


def test_settings_that_differ_stand_first(results):
    text = results_text(results)
    block = text[text.index("SETTINGS") :]
    assert block.index("lr") < block.index("seed")
    assert "5e-05" in block
