"""The model card: filled from the model and its run, and never written over by hand-made words."""

import json

import pytest

import edgeformers
from edgeformers.estimators import EdgeClassifier, LinkPredictor, run_config
from edgeformers.inference.model_card import CARD, write_model_card
from edgeformers.runs import train_run

VERDICT = {
    "metric": "full/mrr",
    "answers": [
        {
            "question": "text",
            "finding": "no",
            "alternative": "texts hidden",
            "gain": 0.01,
            "gains": {"texts hidden": 0.01, "ALS": -0.02},
        }
    ],
}
SETTINGS = {
    "model.backbone": "scratch:2x32",
    "train.epochs": 1,
    "edges.ensemble": False,
    "links.ensemble": False,
}


@pytest.fixture(scope="module")
def run(simulated, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "who buys what"
    config = run_config("link-prediction", "fast", settings=SETTINGS)
    train_run(simulated, folder, config, device="cpu", show=False)
    return folder


def section(card, title):
    return card.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_the_card_of_a_run_has_its_name_data_results_and_settings(run, simulated):
    card = (run / "model" / CARD).read_text(encoding="utf-8")
    title = card.partition("\n# ")[2].partition("\n")[0]
    assert title == f"who buys what: link prediction on {simulated.name}"
    assert f"{simulated.num_edges:,}" in section(card, "Data")
    mrr = json.loads((run / "results.json").read_text())["test"]["full/mrr"]
    assert f"{mrr:.4f}" in section(card, "Results")
    assert "| train.epochs | 1 |" in section(card, "Settings")
    assert "{" not in section(card, "Settings")
    assert "edges." not in section(card, "Settings")
    assert section(card, "Limitations")


def test_a_stored_verdict_is_on_the_card(run):
    card = run / "model" / CARD
    (run / "verdict.json").write_text(json.dumps(VERDICT))
    write_model_card(run / "model")
    text = section(card.read_text(encoding="utf-8"), "Do the graph and the text help?")
    assert "texts hidden" in text
    assert "| ALS | -0.0200 |" in text
    (run / "verdict.json").write_text("damaged")
    write_model_card(run / "model")
    assert "texts hidden" not in card.read_text(encoding="utf-8")


def test_an_edited_card_is_kept(run):
    card = run / "model" / CARD
    before = card.read_text(encoding="utf-8")
    card.write_text("# My own words")
    write_model_card(run / "model")
    assert card.read_text(encoding="utf-8") == "# My own words"
    card.write_text(before, encoding="utf-8")


@pytest.mark.parametrize("kind", [EdgeClassifier, LinkPredictor])
def test_the_code_on_the_card_runs(kind, simulated, tmp_path):
    settings = {name: value for name, value in SETTINGS.items() if name != "model.backbone"}
    estimator = kind("scratch:2x32", recipe="fast", settings=settings, show=False, device="cpu")
    folder = estimator.fit(simulated).save(tmp_path / "saved")
    card = (folder / CARD).read_text(encoding="utf-8")
    code = card.partition("```python\n")[2].partition("```")[0]
    names = {}
    exec(code.replace("path/to/this/folder", str(folder)), names)
    assert isinstance(names["model"], kind)
    facts = edgeformers.load(folder).fitted_.network_facts
    assert facts["edges"] == simulated.num_edges
    assert card.startswith("---\nlibrary_name: edgeformers")
