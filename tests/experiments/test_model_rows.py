import pytest

from edgeformers.errors import InputError
from edgeformers.experiments.model_rows import (
    EDGE_ROWS,
    LINK_ROWS,
    ModelRow,
    ablation_rows,
    choose_rows,
    dimension_rows,
    neighbor_rows,
)
from edgeformers.registry import MODELS

ENCODES = {"edge-classification": "edges", "link-prediction": "nodes"}
ALONE = {"links.ensemble": False}  # rows are compared without others' help


def test_every_row_of_every_table_has_its_model():
    rows = (*EDGE_ROWS, *LINK_ROWS, *ablation_rows())
    assert [row.name for row in rows if not row.exists] == []


def test_every_row_is_a_model_of_its_task():
    for row in (*EDGE_ROWS, *LINK_ROWS, *ablation_rows()):
        assert row.is_simple or MODELS[row.model].encodes == ENCODES[row.task]


def test_names_are_not_used_twice():
    names = [row.name for row in (*EDGE_ROWS, *LINK_ROWS)]
    assert len(set(names)) == len(names)


def test_an_ablation_loses_one_token_at_a_time():
    rows = {row.name: row for row in ablation_rows()}
    assert list(rows) == [
        "edgeformer-e",
        "edgeformer-e-without-source",
        "edgeformer-e-without-target",
        "edgeformer-n",
        "edgeformer-n-without-center",
        "edgeformer-n-without-neighbor",
        "edgeformer-n-without-local",
    ]
    assert rows["edgeformer-n"].settings == ALONE
    left = rows["edgeformer-n-without-neighbor"].settings
    assert left == {**ALONE, "model.tokens": ["center", "local"]}


def test_studies_vary_one_setting():
    assert [row.settings for row in dimension_rows((4, 8))] == [
        {**ALONE, "model.node_width": 4},
        {**ALONE, "model.node_width": 8},
    ]
    assert neighbor_rows((3,))[0].settings == {
        **ALONE,
        "data.source_neighbors": [3],
        "data.target_neighbors": [3],
    }


def test_rows_are_chosen_by_name_and_keep_their_order():
    chosen = choose_rows(EDGE_ROWS, ["edgeformer-e", "tfidf"])
    assert [row.name for row in chosen] == ["tfidf", "edgeformer-e"]


def test_a_row_there_is_no_model_for_is_left_out_unless_it_is_asked_for():
    more = {"model": "nowhere", "task": "link-prediction", "group": "gnn"}
    row = ModelRow(name="nowhere", title="Nowhere", **more)
    assert choose_rows([row], None) == ()
    with pytest.raises(InputError, match="the row 'nowhere' is not part of this installation"):
        choose_rows([row], ["nowhere"])


def test_no_row_at_all_is_refused():
    with pytest.raises(InputError, match="no row is named; available: node-ids, frozen"):
        choose_rows(EDGE_ROWS, [])


def test_an_unknown_row_is_answered_with_the_nearest():
    with pytest.raises(InputError, match="no row 'bert-node'; did you mean 'bert-nodes'"):
        choose_rows(EDGE_ROWS, ["bert-node"])
