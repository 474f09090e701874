import json

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from edgeformers.errors import ConfigError, FormatError, InputError
from edgeformers.minilm import has_minilm
from edgeformers.nn import backbones
from edgeformers.nn.backbones import (
    backbone_config,
    export_backbone,
    find_backbone_folder,
    load_backbone,
    random_backbone,
)
from edgeformers.nn.encoder import EncoderConfig
from edgeformers.nn.packed import PackedText

SHAPE = {
    "vocab_size": 30,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
}
NO_SPECIAL = dict.fromkeys(["bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"])
MODERN = {**SHAPE, **NO_SPECIAL, "pad_token_id": 0, "local_attention": 4}
DISTIL = {
    "vocab_size": 30,
    "dim": 16,
    "n_layers": 3,
    "n_heads": 2,
    "hidden_dim": 24,
    "max_position_embeddings": 20,
}
PUBLISHED = {
    "bert": transformers.BertConfig(**SHAPE),
    "bert-tanh": transformers.BertConfig(**SHAPE, hidden_act="gelu_new"),
    "roberta": transformers.RobertaConfig(**SHAPE, type_vocab_size=1, pad_token_id=1),
    "xlm-roberta": transformers.XLMRobertaConfig(**SHAPE, type_vocab_size=1, hidden_act="silu"),
    "electra": transformers.ElectraConfig(**SHAPE, embedding_size=8),
    "electra-wide": transformers.ElectraConfig(**SHAPE, embedding_size=16),
    "distilbert": transformers.DistilBertConfig(**DISTIL, activation="relu"),
    "modernbert": transformers.ModernBertConfig(**MODERN),
    "modernbert-biased": transformers.ModernBertConfig(
        **MODERN, norm_bias=True, attention_bias=True, mlp_bias=True, global_attn_every_n_layers=2
    ),
}
ALL = pytest.mark.parametrize("name", PUBLISHED)
needs_minilm = pytest.mark.skipif(not has_minilm(), reason="the extra minilm is missing")
BERT_CONFIG = EncoderConfig(vocab_size=30, width=16, heads=2, layers=2, ffn_width=24)


def published_model(name):
    """A tiny random model of transformers whose norms and biases do something."""
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(PUBLISHED[name], attn_implementation="eager")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


def hidden_states(model, text: PackedText):
    """What transformers computes on the same texts, padded."""
    padding = model.config.pad_token_id
    ids = text.to_padded(text.token_ids - padding) + padding
    with torch.inference_mode():
        return model(ids, attention_mask=text.mask.long()).last_hidden_state[text.mask]


@pytest.fixture
def bert_folder(tmp_path):
    published_model("bert").save_pretrained(tmp_path)
    return tmp_path


def rewrite(path, change):
    """Change the tensors of a checkpoint in place."""
    tensors = load_file(path / "model.safetensors")
    save_file(change(tensors), path / "model.safetensors", metadata={"format": "pt"})


@ALL
def test_hidden_states_are_those_of_transformers(tmp_path, make_text, name):
    model, text = published_model(name), make_text((5, 1, 18, 3, 9))
    model.save_pretrained(tmp_path)
    encoder = load_backbone(tmp_path)
    with torch.inference_mode():
        ours = encoder(text)
    torch.testing.assert_close(ours, hidden_states(model, text), atol=1e-5, rtol=1e-5)


@ALL
def test_an_exported_backbone_loads_in_transformers(tmp_path, text, name):
    published_model(name).save_pretrained(tmp_path / "published")
    encoder = load_backbone(tmp_path / "published")
    export_backbone(encoder, tmp_path / "exported")
    model, report = transformers.AutoModel.from_pretrained(
        tmp_path / "exported", attn_implementation="eager", output_loading_info=True
    )
    assert all("pooler" in missing for missing in report["missing_keys"])
    assert not report["unexpected_keys"]
    with torch.inference_mode():
        ours = encoder(text)
    torch.testing.assert_close(ours, hidden_states(model.eval(), text), atol=1e-5, rtol=1e-5)
    assert load_backbone(tmp_path / "exported").config == encoder.config


@ALL
def test_every_parameter_learns(tmp_path, text, name):
    published_model(name).save_pretrained(tmp_path)
    encoder = load_backbone(tmp_path)
    encoder(text).square().sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters())


@ALL
def test_a_checkpoint_with_a_head_gives_the_same_encoder(tmp_path, name):
    torch.manual_seed(0)
    model = transformers.AutoModelForSequenceClassification.from_config(PUBLISHED[name])
    model.save_pretrained(tmp_path / "head")
    model.base_model.save_pretrained(tmp_path / "bare")
    with_head = load_backbone(tmp_path / "head").state_dict()
    for key, tensor in load_backbone(tmp_path / "bare").state_dict().items():
        assert torch.equal(tensor, with_head[key])


@needs_minilm
def test_minilm_is_the_published_one(make_text):
    text = make_text((7, 1, 30))
    model = transformers.AutoModel.from_pretrained(
        find_backbone_folder("minilm"), attn_implementation="eager"
    )
    encoder = load_backbone("minilm")
    with torch.inference_mode():
        ours = encoder(text)
    torch.testing.assert_close(ours, hidden_states(model, text), atol=1e-5, rtol=1e-5)
    assert backbone_config("minilm") == encoder.config
    assert (encoder.config.width, encoder.config.layers) == (384, 6)


def test_altered_minilm_weights_are_refused(tmp_path, monkeypatch):
    published_model("bert").save_pretrained(tmp_path)
    monkeypatch.setattr(backbones, "minilm_folder", lambda: tmp_path)
    with pytest.raises(FormatError, match=r"model.safetensors: sha256 is \w+, expected 53aa5117"):
        load_backbone("minilm")


@pytest.mark.parametrize("kind", ["sharded", "pickled", "half", "gamma"])
def test_checkpoints_are_read_however_they_are_stored(tmp_path, bert_folder, kind):
    expected = load_backbone(bert_folder).state_dict()
    tensors = load_file(bert_folder / "model.safetensors")
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text((bert_folder / "config.json").read_text())
    if kind == "sharded":
        names = {key: f"model-{1 + i % 2}-of-2.safetensors" for i, key in enumerate(tensors)}
        for part in set(names.values()):
            save_file({k: t for k, t in tensors.items() if names[k] == part}, other / part)
        index = {"weight_map": names}
        (other / "model.safetensors.index.json").write_text(json.dumps(index))
    elif kind == "pickled":
        torch.save(tensors, other / "pytorch_model.bin")
    elif kind == "half":
        save_file({k: t.half() for k, t in tensors.items()}, other / "model.safetensors")
        expected = {k: t.half().float() for k, t in expected.items()}
    else:
        old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        renamed = {}
        for key, tensor in tensors.items():
            for new, first in old.items():
                key = key.replace(new, first)
            renamed[f"bert.{key}"] = tensor
        save_file(renamed, other / "model.safetensors")
    for key, tensor in load_backbone(other).state_dict().items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, expected[key])


def test_another_dtype_can_be_asked_for(bert_folder):
    encoder = load_backbone(bert_folder, dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in encoder.parameters()} == {torch.bfloat16}


def test_a_pickle_that_is_more_than_tensors_is_refused(bert_folder):
    (bert_folder / "model.safetensors").unlink()
    torch.save({"run": print}, bert_folder / "pytorch_model.bin")
    with pytest.raises(FormatError, match=r"pytorch_model.bin"):
        load_backbone(bert_folder)
    torch.save({"step": 3}, bert_folder / "pytorch_model.bin")
    with pytest.raises(FormatError, match=r"pytorch_model.bin"):
        load_backbone(bert_folder)


def test_a_damaged_file_is_named(bert_folder):
    (bert_folder / "model.safetensors").write_bytes(b"\x00" * 40)
    with pytest.raises(FormatError, match=r"model.safetensors"):
        load_backbone(bert_folder)


def test_missing_and_unexpected_tensors_are_named(bert_folder):
    rewrite(bert_folder, lambda t: {**t, "encoder.extra.weight": torch.zeros(2)})
    with pytest.raises(FormatError, match=r"unexpected .*encoder\.extra\.weight"):
        load_backbone(bert_folder)
    rewrite(bert_folder, lambda t: {k: v for k, v in t.items() if ".extra." not in k})
    rewrite(bert_folder, lambda t: {k: v for k, v in t.items() if ".layer.1." not in k})
    with pytest.raises(FormatError, match=r"missing .*encoder\.layer\.1\.attention\..* 11 more"):
        load_backbone(bert_folder)


def test_a_tensor_of_another_shape_is_named(bert_folder):
    name = "embeddings.word_embeddings.weight"
    rewrite(bert_folder, lambda t: {**t, name: torch.zeros(31, 16)})
    with pytest.raises(FormatError, match=r"word_embeddings.weight .* \[31, 16\], .* \[30, 16\]"):
        load_backbone(bert_folder)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"model_type": "mpnet"}, "mpnet"),
        ({"model_type": None}, "model_type"),
        ({"position_embedding_type": "relative_key"}, "relative_key"),
        ({"is_decoder": True}, "is_decoder"),
        ({"hidden_act": "mish"}, "mish"),
        ({"hidden_size": "wide"}, "config.json"),
    ],
)
def test_an_unsupported_config_is_refused(bert_folder, change, word):
    path = bert_folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(FormatError, match=word):
        backbone_config(bert_folder)


def test_rotary_scaling_is_refused(tmp_path):
    published_model("modernbert").save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    values = json.loads(path.read_text())
    values["rope_parameters"]["full_attention"] |= {"rope_type": "linear", "factor": 2.0}
    path.write_text(json.dumps(values))
    with pytest.raises(FormatError, match="'linear' in full_attention"):
        load_backbone(tmp_path)


def test_an_older_modernbert_config_is_understood(tmp_path):
    older = {
        **{key: value for key, value in MODERN.items() if value is not None},
        "model_type": "modernbert",
        "global_attn_every_n_layers": 2,
        "global_rope_theta": 500.0,
        "local_rope_theta": 50.0,
    }
    (tmp_path / "config.json").write_text(json.dumps(older))
    config = backbone_config(tmp_path)
    assert config.windows == (None, 2, None)
    assert (config.rotary_theta, config.window_rotary_theta) == (500.0, 50.0)


def test_folders_without_their_files_are_refused(tmp_path, bert_folder):
    with pytest.raises(FormatError, match=r"config.json"):
        load_backbone(find_backbone_folder(tmp_path.parent))
    (bert_folder / "model.safetensors").unlink()
    with pytest.raises(FormatError, match=r"model.safetensors"):
        load_backbone(bert_folder)
    index = {"weight_map": {"a": "model-1.safetensors"}}
    (bert_folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(FormatError, match=r"model-1.safetensors"):
        load_backbone(bert_folder)
    (bert_folder / "config.json").write_text("{")
    with pytest.raises(FormatError, match="JSON"):
        load_backbone(bert_folder)
    (bert_folder / "config.json").write_text("[]")
    with pytest.raises(FormatError, match="object"):
        load_backbone(bert_folder)


def test_a_folder_that_is_not_there_is_refused_without_asking_the_hub():
    with pytest.raises(InputError, match="nowhere/at/all"):
        find_backbone_folder("./nowhere/at/all")


def test_a_hub_name_fetches_only_what_is_needed(bert_folder, monkeypatch):
    asked = []

    def snapshot(name, allow_patterns):
        asked.append((name, allow_patterns))
        return str(bert_folder)

    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", lambda url, timeout: None)
    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    assert backbone_config("owner/tiny").width == 16
    load_backbone("owner/tiny")
    (bert_folder / "model.safetensors").unlink()
    find_backbone_folder("owner/tiny")
    assert [name for name, _ in asked] == ["owner/tiny"] * 4
    assert not any("safetensors" in pattern for pattern in asked[0][1])
    assert "model.safetensors" in asked[1][1]
    assert "pytorch_model.bin" not in asked[2][1]
    assert "pytorch_model.bin" in asked[3][1]


def test_a_name_the_hub_cannot_give_is_explained(monkeypatch):
    def ask(url, timeout):
        raise ConnectionError("no route to host")

    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", ask)
    with pytest.raises(InputError, match=r"owner/tiny.*no route to host"):
        load_backbone("owner/tiny")


def test_a_random_backbone_follows_its_seed(text):
    one, same, other = (random_backbone(BERT_CONFIG, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one(text), same(text))
    assert not torch.allclose(one(text), other(text))
    assert one(text).isfinite().all()


def test_a_shape_the_family_cannot_say_is_not_exported(tmp_path):
    config = EncoderConfig(vocab_size=30, width=16, heads=2, layers=2, ffn_width=24, gated=True)
    with pytest.raises(ConfigError, match="gated=True"):
        export_backbone(random_backbone(config), tmp_path)
    config = EncoderConfig(family="brt", vocab_size=30, width=16, heads=2, layers=2, ffn_width=24)
    with pytest.raises(ConfigError, match="'bert'"):
        export_backbone(random_backbone(config), tmp_path)


def test_a_text_too_long_for_the_encoder_is_refused(make_text):
    encoder = random_backbone(BERT_CONFIG)
    with pytest.raises(InputError, match="513 tokens"):
        encoder(make_text([2, 513]))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"activation": "gellu"}, "'gelu'"),
        ({"heads": 3}, "width=16, heads=3"),
        ({"windows": (1,)}, "windows"),
    ],
)
def test_an_impossible_shape_is_refused(change, word):
    shape = {"vocab_size": 30, "width": 16, "heads": 2, "layers": 2, "ffn_width": 24}
    with pytest.raises(ConfigError, match=word):
        EncoderConfig(**{**shape, **change})


def test_an_empty_batch_gives_no_rows():
    assert random_backbone(BERT_CONFIG)(PackedText.from_lists([])).shape == (0, 16)
