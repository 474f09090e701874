import json
import os
import shutil
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from edgeformers import __version__
from edgeformers.data.node_index import NodeIndex
from edgeformers.data.storage import fingerprint
from edgeformers.errors import FormatError, InputError
from edgeformers.inference.saved_model import (
    SavedModel,
    load_model,
    model_fingerprint,
    remove_model,
    save_model,
)
from edgeformers.nn.no_text import NoText
from edgeformers.registry import model_name
from tests.tiny_models import make_tiny

NODES = NodeIndex(pa.chunked_array([[f"node {i}" for i in range(7)]]))


def make_tokenizer(size=30):
    vocabulary = {"[UNK]": 0, **{f"word{i}": i for i in range(1, size)}}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def save(folder, name="edgeformer-e", settings=None, **more):
    model = make_tiny(name, **(settings or {}))
    given = {"model": model, "tokenizer": make_tokenizer(), "nodes": NODES, **more}
    return save_model(SavedModel(**given), folder)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return save(tmp_path_factory.mktemp("models") / "original")


@pytest.fixture
def saved(original, tmp_path):
    return shutil.copytree(original, tmp_path / "saved")


def change_config(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def renew_checksums(folder):
    files = {path.name: fingerprint(path) for path in folder.iterdir()}
    del files["config.json"], files["README.md"]
    change_config(folder, files=files)


def test_everything_that_was_given_comes_back(tmp_path):
    head = {"weight": torch.randn(3, 16), "bias": torch.randn(3)}
    extra = {"max_tokens": 64, "best": {"epoch": 3, "macro_f1": 0.5}}
    nodes = NodeIndex(NODES.ids, num_sources=4)
    folder = save(
        tmp_path / "saved", nodes=nodes, label_names=["a", "b", "c"], head=head, extra=extra
    )
    loaded = load_model(folder)
    assert model_name(loaded.model) == "edgeformer-e"
    assert loaded.tokenizer.encode("word3 word5").ids == [3, 5]
    assert (loaded.nodes.ids, loaded.nodes.num_sources) == (NODES.ids, 4)
    assert loaded.label_names == ["a", "b", "c"]
    assert loaded.head.keys() == head.keys()
    assert all(torch.equal(loaded.head[name], head[name]) for name in head)
    assert loaded.extra == extra
    assert not loaded.model.training


def test_a_network_of_one_kind_of_node_has_no_sides(saved):
    loaded = load_model(saved)
    assert loaded.nodes.num_sources is None
    assert (loaded.label_names, loaded.head, loaded.extra) == ([], {}, {})


def test_the_files_are_those_a_hub_expects(saved):
    names = {"README.md", "config.json", "model.safetensors", "nodes.parquet", "tokenizer.json"}
    assert {path.name for path in saved.iterdir()} == names
    config = json.loads((saved / "config.json").read_text())
    assert (config["format"], config["schema_version"]) == ("edgeformers-model", 1)
    assert (config["library_version"], config["model"]) == (__version__, "edgeformer-e")
    assert pq.read_schema(saved / "nodes.parquet").names == ["name", "side"]


@pytest.mark.parametrize("name", ["edgeformer-e", "edgeformer-n"])
def test_modules_shared_by_layers_are_stored_once_and_shared_again(tmp_path, name):
    folder = save(tmp_path / "saved", name, {"fidelity": "released"})
    stored = load_file(folder / "model.safetensors")
    assert [key for key in stored if key.startswith("projections.")] == [
        "projections.0.maps.0.bias",
        "projections.0.maps.0.weight",
    ]
    model = load_model(folder).model
    assert model.projections[0] is model.projections[1]
    assert not any(parameter.is_meta for parameter in model.parameters())
    with torch.no_grad():  # what is loaded can be trained on
        model.projections[0].maps[0].weight.add_(1)


def test_half_precision_stays_half_precision(tmp_path):
    model = make_tiny("edgeformer-e").bfloat16()
    folder = save(tmp_path / "half", model=model)
    loaded = load_model(folder).model
    assert loaded.nodes.table.dtype == torch.bfloat16
    assert model_fingerprint(loaded) == model_fingerprint(model)


def test_the_fingerprint_follows_settings_and_tensors():
    prints = [
        model_fingerprint(make_tiny(*name, **settings))
        for name, settings in (
            (["edgeformer-e"], {}),
            (["edgeformer-e"], {"seed": 1}),
            (["edgeformer-e"], {"tokens": ("source",)}),
            (["edgeformer-n"], {}),
        )
    ]
    assert len(set(prints)) == 4
    assert all(len(one) == 64 for one in prints)
    model = make_tiny("edgeformer-e")
    assert model_fingerprint(model) == prints[0]
    model.nodes.mark_seen(torch.tensor([False] + [True] * 6))
    assert model_fingerprint(model) != prints[0]


def test_the_head_of_the_card_is_what_a_hub_reads(tmp_path):
    import yaml

    folder = save(tmp_path / "my model")
    _, head, body = (folder / "README.md").read_text().split("---\n", 2)
    assert yaml.safe_load(head) == {
        "library_name": "edgeformers",
        "tags": ["edgeformers", "edgeformer-e", "text-attributed-graph"],
    }
    assert body.strip().startswith("# my model")


def test_the_code_on_the_card_runs(tmp_path, monkeypatch):
    folder = save(tmp_path / "saved")
    code = (folder / "README.md").read_text().split("```python\n")[1].split("```")[0]
    names = {}
    exec(code.replace("path/to/this/folder", str(folder)), names)
    assert model_name(names["saved"].model) == "edgeformer-e"


def test_a_saved_model_is_replaced(saved):
    save(saved, extra={"second": True})
    assert load_model(saved).extra == {"second": True}
    assert [path.name for path in saved.parent.iterdir()] == ["saved"]


def test_other_folders_are_never_overwritten(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "tokenizer.json").write_text("{}")
    (tmp_path / "file").write_text("mine")
    for name, words in (("thesis", "not a saved model"), ("file", "a file")):
        with pytest.raises(InputError, match=f"{name} is {words}; it is not overwritten"):
            save(tmp_path / name)
    (tmp_path / "empty").mkdir()
    assert save(tmp_path / "empty").is_dir()


def test_a_model_with_other_files_beside_it_is_never_overwritten(saved):
    (saved / ".git").mkdir()
    (saved / ".git" / "HEAD").write_text("mine")
    with pytest.raises(InputError, match=r"saved is not overwritten.*\(\.git/HEAD\)"):
        save(saved, extra={"second": True})
    remove_model(saved)
    assert load_model(saved).extra == {}
    assert (saved / ".git" / "HEAD").read_text() == "mine"
    shutil.rmtree(saved / ".git")
    remove_model(saved)
    assert not saved.exists()


def test_a_failed_save_leaves_the_old_model(saved, monkeypatch):
    def fail(*_args, **_more):
        raise OSError("the cable is out")

    monkeypatch.setattr("edgeformers.inference.saved_model.pq.write_table", fail)
    with pytest.raises(OSError, match="cable"):
        save(saved, extra={"second": True})
    assert load_model(saved).extra == {}
    assert [path.name for path in saved.parent.iterdir()] == ["saved"]


def test_absent_and_foreign_folders_are_named(tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        load_model(tmp_path / "nowhere")
    with pytest.raises(FormatError, match=r"config\.json"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(FormatError, match=r"config\.json"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(FormatError, match=r"config\.json is damaged"):
        load_model(tmp_path)


@pytest.mark.parametrize("version", [0, 2, None, "1"])
def test_another_version_is_refused_with_what_to_do(saved, version):
    change_config(saved, schema_version=version, library_version="9.1")
    with pytest.raises(FormatError, match=rf"schema version {version} .*9\.1"):
        load_model(saved)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "nodes.parquet"])
def test_missing_and_damaged_files_are_named(saved, name):
    path = saved / name
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(FormatError, match=f"{name} is damaged: its checksum"):
        load_model(saved)
    path.write_bytes(whole[: len(whole) // 2])
    renew_checksums(saved)
    with pytest.raises(FormatError, match=f"{name} is damaged"):
        load_model(saved)
    path.unlink()
    with pytest.raises(FormatError, match=f"{name} is missing"):
        load_model(saved)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": "edgeformer-x"}, "'edgeformer-x'; did you mean 'edgeformer-"),
        ({"model_config": {"num_nodes": 7, "widht": 3}}, "'widht'"),
        ({"model_config": {}}, "num_nodes"),
        ({"encoder_config": {"width": 16, "hads": 4}}, "'hads'; did"),
        ({"files": {}}, "model.safetensors is damaged: its checksum differs"),
    ],
)
def test_a_config_that_makes_no_sense_is_named(saved, values, message):
    change_config(saved, **values)
    with pytest.raises(FormatError, match=message):
        load_model(saved)


def test_a_config_that_lacks_facts_is_damaged(saved):
    path = saved / "config.json"
    facts = json.loads(path.read_text())
    del facts["extra"]
    path.write_text(json.dumps(facts))
    with pytest.raises(FormatError, match="extra is missing"):
        load_model(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("nodes.table"), "lacks the tensor nodes.table"),
        (lambda t: t.update(more=torch.ones(1)), "has the unexpected tensor more"),
        (
            lambda t: t.update({"nodes.table": torch.ones(3, 6)}),
            "nodes.table has shape",
        ),
    ],
)
def test_weights_of_another_model_are_named(saved, change, message):
    tensors = load_file(saved / "model.safetensors")
    change(tensors)
    save_file({name: t.clone() for name, t in tensors.items()}, saved / "model.safetensors")
    renew_checksums(saved)
    with pytest.raises(FormatError, match=message):
        load_model(saved)


def test_a_tokenizer_or_node_table_of_another_model_is_named(saved):
    make_tokenizer(40).save(str(saved / "tokenizer.json"))
    renew_checksums(saved)
    with pytest.raises(FormatError, match=r"tokenizer\.json .* 39"):
        load_model(saved)
    make_tokenizer().save(str(saved / "tokenizer.json"))
    pq.write_table(pq.read_table(saved / "nodes.parquet").slice(1), saved / "nodes.parquet")
    renew_checksums(saved)
    with pytest.raises(FormatError, match=r"nodes\.parquet has 6"):
        load_model(saved)


def test_the_card_may_be_edited_by_hand(saved):
    (saved / "README.md").write_text("# My own words")
    assert model_name(load_model(saved).model) == "edgeformer-e"


def test_a_bag_of_words_is_stored_and_told_in_the_card(tmp_path):
    folder = save(tmp_path / "bag", "ehgnn")
    assert "ehgnn with 7 nodes on bags of 27 words, 16 wide." in (folder / "README.md").read_text()
    loaded = load_model(folder)
    made, kept = make_tiny("ehgnn").encoder, loaded.model.encoder
    assert model_name(loaded.model) == "ehgnn"
    assert kept.config == made.config
    assert torch.equal(kept.column, made.column)
    assert torch.equal(kept.idf, made.idf)
    facts = json.loads((folder / "config.json").read_text())
    change_config(folder, encoder_config={**facts["encoder_config"], "wrds": 3})
    with pytest.raises(FormatError, match="'wrds'"):
        load_model(folder)


def test_the_same_class_over_other_texts_is_another_model(tmp_path):
    assert model_name(load_model(save(tmp_path / "one", "ehgnn")).model) == "ehgnn"
    assert model_name(load_model(save(tmp_path / "other", "bert-ehgnn")).model) == "bert-ehgnn"


@pytest.mark.parametrize("name", ["mean-sage", "max-sage", "gin"])
def test_node_centric_models_of_0_1_load_as_those_that_read_words(name, tmp_path):
    old = save(tmp_path / "old", f"{name}-words")
    change_config(old, model=name)  # the name they had
    assert model_name(load_model(old).model) == f"{name}-words"
    new = load_model(save(tmp_path / "new", name)).model
    assert model_name(new) == name
    assert isinstance(new.encoder, NoText)


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("graphformers-n", "joined_tokens"),
        ("graphformers", None),
        ("bert-max-sage", None),
        ("ehgnn", None),
        ("bert-ehgnn", None),
    ],
)
def test_models_of_0_1_that_are_defined_differently_now_must_be_trained_again(
    name, setting, tmp_path
):
    folder = save(tmp_path / "old", name)
    assert model_name(load_model(folder).model) == name
    config = json.loads((folder / "config.json").read_text())["model_config"]
    config = {key: v for key, v in config.items() if key not in ("node_tokens", "layers")}
    change_config(folder, model_config=config | ({setting: 256} if setting else {}))
    with pytest.raises(FormatError, match=f"'{name}' of version 0.1.*train it again"):
        load_model(folder)


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("encoder_config", "layers", 10_000_000),
        ("encoder_config", "width", 10**12),
        ("encoder_config", "vocab_size", 10**12),
        ("encoder_config", "heads", 0),
        ("encoder_config", "layers", "3"),
        ("encoder_config", "windows", 5),
        ("encoder_config", "dropout", []),
        ("model_config", "num_nodes", 10**12),
        ("model_config", "edge_types", 10_000_000),
        ("model_config", "node_width", None),
    ],
)
def test_sizes_and_types_in_settings_are_checked_against_the_tensors(saved, section, name, value):
    facts = json.loads((saved / "config.json").read_text())
    change_config(saved, **{section: {**facts[section], name: value}})
    started = time.monotonic()
    with pytest.raises(FormatError):
        load_model(saved)
    assert time.monotonic() - started < 2


@pytest.mark.parametrize(
    ("name", "value"),
    [("model_config", 3), ("label_names", [1]), ("extra", []), ("files", {"x": 1}), ("model", {})],
)
def test_values_of_other_types_in_config_json_are_rejected(saved, name, value):
    change_config(saved, **{name: value})
    with pytest.raises(FormatError, match=r"config\.json"):
        load_model(saved)


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5000, '{"a": "' + "x" * (1 << 24) + '"}'])
def test_hostile_json_is_rejected(saved, text):
    (saved / "config.json").write_text(text)
    with pytest.raises(FormatError, match=r"config\.json"):
        load_model(saved)


def test_a_large_sparse_file_is_not_read(saved):
    """Its header claims four terabytes, as the file does."""
    content = (saved / "model.safetensors").read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    end = max(tensor["data_offsets"][1] for key, tensor in header.items() if key[0] != "_")
    header["more"] = {"dtype": "F32", "shape": [2**40], "data_offsets": [end, end + 2**42]}
    text = json.dumps(header).encode()
    path = saved / "model.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])
    os.truncate(path, path.stat().st_size + 2**42)
    with pytest.raises(FormatError, match=r"model\.safetensors"):
        load_model(saved)


@pytest.mark.parametrize("name", ["../saved/tokenizer.json", "/etc/passwd", ""])
def test_names_of_files_outside_the_folder_are_rejected(saved, name):
    facts = json.loads((saved / "config.json").read_text())
    change_config(saved, files={**facts["files"], name: facts["files"]["tokenizer.json"]})
    with pytest.raises(FormatError, match="outside"):
        load_model(saved)


def test_files_may_be_symbolic_links_to_the_same_contents(saved, tmp_path):
    (saved / "tokenizer.json").rename(tmp_path / "elsewhere.json")
    (saved / "tokenizer.json").symlink_to(tmp_path / "elsewhere.json")
    load_model(saved)
    (tmp_path / "elsewhere.json").write_text("something else")
    with pytest.raises(FormatError, match="damaged"):
        load_model(saved)


def test_a_tokenizer_does_not_pad_or_use_unknown_special_tokens(saved):
    path = saved / "tokenizer.json"
    values = json.loads(path.read_text())
    padding = {"strategy": {"Fixed": 10**12}, "direction": "Right", "pad_to_multiple_of": None}
    values["padding"] = {**padding, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    path.write_text(json.dumps(values))
    renew_checksums(saved)
    assert load_model(saved).tokenizer.encode("word1 word2").ids == [1, 2]


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_tensors_of_other_types_are_rejected(saved, dtype):
    path = saved / "model.safetensors"
    tensors = load_file(path)
    tensors["nodes.table"] = tensors["nodes.table"].to(dtype)
    save_file(tensors, path)
    renew_checksums(saved)
    with pytest.raises(FormatError, match=r"nodes\.table"):
        load_model(saved)


@pytest.mark.parametrize("sides", [["x"] * 7, ["target", "source"] * 3 + ["target"]])
def test_sides_of_nodes_must_be_sources_then_targets(saved, sides):
    path = saved / "nodes.parquet"
    table = pq.read_table(path)
    pq.write_table(table.set_column(1, "side", pa.array(sides)), path)
    renew_checksums(saved)
    with pytest.raises(FormatError, match=r"nodes\.parquet"):
        load_model(saved)
