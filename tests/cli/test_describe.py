import json

import pytest

from tests.cli.commands import run_examples


@pytest.fixture
def network(edgeformers, edges):
    made = edgeformers("prepare", edges, "-o", "net", "--tokenizer", "none", "--quiet")
    assert made.code == 0
    return "net"


def test_shows_the_card_and_writes_its_page(edgeformers, network, tmp_path):
    answer = edgeformers("describe", network)
    assert answer.code == 0
    assert "20 edges" in answer.out
    assert "net/card.html" in answer.out
    assert (tmp_path / "net" / "card.html").is_file()


def test_json_is_the_only_output(edgeformers, network):
    answer = edgeformers("describe", network, "--json")
    assert json.loads(answer.out)["name"] == "net"


def test_a_folder_without_a_network_is_refused(edgeformers, edges, tmp_path):
    for folder in ("nothing", "."):
        answer = edgeformers("describe", folder)
        assert answer.code == 2
        assert answer.err.startswith(f"error: {folder} is not a prepared network")
        assert answer.err.count("\n") == 1


def test_a_damaged_network_is_refused(edgeformers, network, tmp_path):
    file = tmp_path / "net" / "src.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    answer = edgeformers("describe", network, "--verify")
    assert answer.code == 2
    assert "src.npy" in answer.err


def test_the_examples_in_the_help_work(edgeformers):
    assert len(run_examples("describe")) == 2
