import json

import pytest

from edgeformers.data.network import PrepareConfig
from edgeformers.data.prepare import prepare_simulated
from edgeformers.errors import InputError
from edgeformers.experiments.execute import execute
from edgeformers.experiments.folders import check_folders, frozen_reading
from edgeformers.experiments.model_rows import ROWS
from edgeformers.experiments.plan import ExperimentOptions, make_plan
from edgeformers.registry import BACKBONE_BASELINES
from tests.baselines.tiny import write_backbone

FROZEN = sorted(BACKBONE_BASELINES)
OURS = {"edge-classification": "edgeformer-e", "link-prediction": "edgeformer-n"}


@pytest.fixture
def network(tmp_path):
    """A network that vectors may be written to, and a backbone of its words."""
    config = PrepareConfig(tokenizer=None, progress=False)
    graph = prepare_simulated(tmp_path / "network", num_edges=300, config=config)
    return graph, write_backbone(tmp_path / "backbone", graph)


def plan_of(graph, out, *rows, **settings):
    what = ROWS[rows[0]].task
    choices = ExperimentOptions(seeds=1, settings=settings)
    return make_plan(what, [ROWS[row] for row in rows], graph, out, choices)


@pytest.mark.parametrize("row", FROZEN)
def test_frozen_texts_are_as_long_as_those_of_the_other_rows(simulated, tmp_path, row):
    given = {"model.backbone": "bert-base-uncased"}
    ours, frozen = plan_of(simulated, tmp_path, OURS[ROWS[row].task], row, **given).runs
    wanted = ours.to_config().data.max_tokens
    assert frozen_reading(frozen) == {"backbone": "bert-base-uncased", "max_tokens": wanted}
    (set_so,) = plan_of(simulated, tmp_path, row, **given, **{"data.max_tokens": 17}).runs
    assert frozen_reading(set_so)["max_tokens"] == 17


def test_an_untrained_backbone_is_not_read_with_but_its_length_of_texts_is_kept(
    simulated, tmp_path
):
    (run,) = plan_of(simulated, tmp_path, "frozen", **{"model.backbone": "scratch:2x32"}).runs
    assert frozen_reading(run) == {"max_tokens": 256}


def test_what_reads_no_frozen_text_is_told_nothing(simulated, tmp_path):
    (run,) = plan_of(simulated, tmp_path, "tfidf").runs
    assert frozen_reading(run) == {}


@pytest.mark.parametrize("row", FROZEN)
def test_a_frozen_row_reads_no_more_tokens_than_its_run_says(network, tmp_path, row):
    graph, backbone = network
    given = {"model.backbone": backbone, "data.max_tokens": 9}
    plan = plan_of(graph, tmp_path / "out", row, **given)
    assert execute(plan, show=False) == []
    (kept,) = graph.path.glob("vectors/*/vectors.json")
    assert json.loads(kept.read_text())["max_tokens"] == 9
    outcome = json.loads((plan.runs[0].path / "outcome.json").read_text())
    assert outcome["chosen"]["setting"]["max_tokens"] == 9


def test_a_run_that_read_shorter_texts_is_not_taken_for_this_one(network, tmp_path):
    graph, backbone = network
    given = {"model.backbone": backbone, "data.max_tokens": 9}
    execute(plan_of(graph, tmp_path / "out", "text-similarity", **given), show=False)
    longer = given | {"data.max_tokens": 10}
    with pytest.raises(InputError, match="text-similarity/0 is a run of other settings"):
        check_folders(plan_of(graph, tmp_path / "out", "text-similarity", **longer))
