import pytest

from edgeformers.errors import InputError
from edgeformers.estimators import run_config
from edgeformers.experiments.model_rows import (
    EDGE_ROWS,
    LINK_ROWS,
    SHIPPED_EDGE_ROWS,
    SHIPPED_LINK_ROWS,
    ModelRow,
    ablation_rows,
    choose_rows,
    dimension_rows,
    neighbor_rows,
)
from edgeformers.registry import MODELS

ENCODES = {"edge-classification": "edges", "link-prediction": "nodes"}
ALONE = {"links.ensemble": False}


def test_every_row_has_a_model_of_its_task():
    for row in (*EDGE_ROWS, *LINK_ROWS, *SHIPPED_EDGE_ROWS, *SHIPPED_LINK_ROWS, *ablation_rows()):
        assert row.exists
        assert row.is_simple or MODELS[row.model].encodes == ENCODES[row.task]


def test_names_are_unique():
    for rows in ((*EDGE_ROWS, *LINK_ROWS), (*SHIPPED_EDGE_ROWS, *SHIPPED_LINK_ROWS)):
        names = [row.name for row in rows]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("task", ["edge-classification", "link-prediction"])
def test_like_for_like_rows_share_their_objective_and_extras(task):
    """No row has an ensemble, late fusion, or a term in its score that another lacks."""
    rows = [row for row in (*EDGE_ROWS, *LINK_ROWS) if row.task == task and not row.is_simple]
    configs = [run_config(task, settings={**row.settings, "model.name": row.model}) for row in rows]
    for name in ("loss", "rdrop", "class_balance"):
        assert len({getattr(config.edges, name) for config in configs}) == 1
    for name in ("collaborative", "popularity_bias", "uniform_negatives"):
        assert len({getattr(config.links, name) for config in configs}) == 1
    ensembles = {"edge-classification": "edges", "link-prediction": "links"}
    assert not any(getattr(config, ensembles[task]).ensemble for config in configs)
    assert not any(c.model.fusion for c in configs if c.model.name == "edgeformer-e")


def test_shipped_rows_are_the_recipe_itself_and_the_recipe_without_its_ensemble():
    rows = {row.name: row for row in (*SHIPPED_EDGE_ROWS, *SHIPPED_LINK_ROWS)}
    assert rows["edgeformer-e-ensemble"].settings == rows["edgeformer-n-ensemble"].settings == {}
    assert rows["edgeformer-e-fusion"].settings == {"edges.ensemble": False}
    assert rows["edgeformer-n"].settings == {"links.ensemble": False}


def test_an_ablation_removes_one_token_at_a_time():
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
    kept = rows["edgeformer-n-without-neighbor"].settings
    assert kept == {**ALONE, "model.tokens": ["center", "local"]}


def test_studies_vary_one_setting():
    assert [row.settings for row in dimension_rows((4, 8))] == [
        {**ALONE, "model.node_width": 4},
        {**ALONE, "model.node_width": 8},
    ]
    sizes = {"data.strata": "none", "data.source_neighbors": [3], "data.target_neighbors": [3]}
    assert neighbor_rows((3,))[0].settings == {**ALONE, **sizes}


def test_chosen_rows_keep_the_order_of_the_table():
    chosen = choose_rows(EDGE_ROWS, ["edgeformer-e", "tfidf"])
    assert [row.name for row in chosen] == ["tfidf", "edgeformer-e"]


def test_rows_are_also_chosen_by_their_old_names():
    (row,) = choose_rows(SHIPPED_LINK_ROWS, ["edgeformer-n-beside"])
    assert row.name == "edgeformer-n-ensemble"


def test_a_row_without_a_model_is_left_out_unless_named():
    row = ModelRow(
        name="nowhere", title="Nowhere", model="nowhere", task="link-prediction", group="gnn"
    )
    assert choose_rows([row], None) == ()
    with pytest.raises(InputError, match="nowhere"):
        choose_rows([row], ["nowhere"])


@pytest.mark.parametrize(
    ("names", "word"),
    [([], "tfidf"), (["bert-node"], "'bert-nodes'"), (["node-ids"], "as-shipped")],
)
def test_missing_and_unknown_names_are_answered_with_known_ones(names, word):
    with pytest.raises(InputError, match=word):
        choose_rows(EDGE_ROWS, names)
