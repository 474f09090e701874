import json
import shutil

import pytest

from tests.cli.commands import run_examples
from tests.cli.conftest import call


@pytest.fixture
def copied(home, tmp_path):
    shutil.copytree("run-links", tmp_path / "run-links")
    return tmp_path / "run-links"


def test_recommendations_stay_the_same_with_an_index(copied):
    args = ("recommend", copied, "user-000003", "-k", 3, "--json", "--quiet")
    shutil.rmtree(copied / "index")  # which training wrote
    before = json.loads(call(*args).out)
    built = json.loads(call("index", copied, "--json", "--quiet").out)
    assert built["index"] == str(copied / "index")
    assert built["recall_at_10"] == 1.0
    after = json.loads(call(*args).out)
    nodes = [[one["node"] for one in told["recommendations"]] for told in (before, after)]
    assert nodes[0] == nodes[1]
    again = call("index", copied, "--quiet")
    assert again.code == 0
    assert "recall@10" in again.out


def test_a_stale_index_is_one_sentence(copied, home):
    assert call("index", copied, "--quiet").code == 0
    record = copied / "index" / "index.json"
    record.write_text(record.read_text().replace('"model": "', '"model": "0'))
    answer = call("recommend", copied, "user-000003", "--quiet")
    assert answer.code == 2
    assert "edgeformers index" in answer.err


def test_a_run_of_edges_has_no_index(home):
    answer = call("index", "run-edges", "--quiet")
    assert answer.code == 2
    assert "link-prediction" in answer.err


@pytest.mark.slow
def test_the_examples_of_the_help_work(edgeformers):
    run_examples("index")
