"""What the service knows about nodes and their edges."""

import numpy as np
import pytest

from edgeformers.errors import InputError


def test_edges_of_a_node_come_in_pages(service, simulated):
    name = service.busiest_nodes("source", 1)[0].id
    number = simulated.node_number(name, "source")
    pages, cursor = [], None
    while not pages or cursor:
        page = service.edges_of(name, side="source", cursor=cursor, limit=3)
        pages.append(page.edges)
        cursor = page.next
    edges = np.sort(simulated.adjacency.edges_of(number))[::-1]
    listed = [edge for page in pages for edge in page]
    assert [edge.text for edge in listed] == simulated.texts(edges)
    assert {edge.source for edge in listed} == {name}
    labels = [simulated.label_names[code] for code in simulated.labels[edges]]
    assert [edge.label for edge in listed] == labels
    assert page.total == len(edges)


@pytest.mark.parametrize("cursor", ["-1", "x", "1e9", "9" * 30])
def test_a_cursor_that_the_server_did_not_give_is_refused(service, cursor):
    with pytest.raises(InputError, match="cursor"):
        service.edges_of("user-000003", cursor=cursor)


def test_the_nodes_with_the_most_edges_come_first(service, simulated):
    for side, low, high in (
        ("source", 0, simulated.num_sources),
        ("target", simulated.num_sources, simulated.num_nodes),
    ):
        found = service.busiest_nodes(side, 5)
        expected = np.sort(simulated.adjacency.degrees()[low:high])[::-1][:5]
        assert [node.edges for node in found] == expected.tolist()
        assert {node.side for node in found} == {side}
        again = service.find_node(found[0].id, side)
        assert again == found[0]
