import json
import re

import pytest

from edgeformers.cli.describe import EXAMPLES


@pytest.fixture
def network(edgeformers, edges):
    made = edgeformers("prepare", edges, "-o", "net", "--tokenizer", "none", "--quiet")
    assert made.code == 0
    return "net"


def test_shows_the_card_and_writes_its_page(edgeformers, network, tmp_path):
    answer = edgeformers("describe", network)
    assert answer.code == 0
    assert "20 edges" in answer.out
    assert "The same as a page: net/card.html" in answer.out
    assert (tmp_path / "net" / "card.html").is_file()


def test_json_stands_alone_on_stdout(edgeformers, network):
    answer = edgeformers("describe", network, "--json")
    assert json.loads(answer.out)["name"] == "net"


def test_what_is_not_a_network_is_answered_with_a_sentence(edgeformers, edges, tmp_path):
    for folder in ("nothing", "."):
        answer = edgeformers("describe", folder)
        assert answer.code == 2
        assert answer.err.startswith(f"error: {folder} is not a prepared network: it has no")
        assert answer.err.count("\n") == 1


def test_a_damaged_network_is_answered_with_a_sentence(edgeformers, network, tmp_path):
    file = tmp_path / "net" / "src.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    answer = edgeformers("describe", network, "--verify")
    assert answer.code == 2
    assert "src.npy is damaged: its checksum differs; prepare the network again" in answer.err


def test_the_commands_of_the_help_work_as_pasted(edgeformers):
    shown = edgeformers("describe", "--help").out
    first, second = re.findall(r"^  edgeformers (.*)$", EXAMPLES, re.MULTILINE)
    assert first in shown
    assert second in shown
    made = edgeformers(*first.split(), "--edges", "300", "--tokenizer", "none", "--quiet")
    assert made.code == 0
    assert edgeformers(*second.split()).code == 0
