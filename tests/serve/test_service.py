"""What the service knows about nodes and their edges."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from edgeformers.errors import InputError, UnknownNodeError
from edgeformers.inference.candidate_filter import CandidateFilter
from edgeformers.serve.schemas import OwnEdge


def test_edges_of_a_node_come_in_pages(service, simulated):
    name = service.nodes.busiest("source", 1)[0].id
    number = simulated.node_number(name, "source")
    pages, cursor = [], None
    while not pages or cursor:
        page = service.nodes.edges_of(name, side="source", cursor=cursor, limit=3)
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
        service.nodes.edges_of("user-000003", cursor=cursor)


def test_the_nodes_with_the_most_edges_come_first(service, simulated):
    for side, low, high in (
        ("source", 0, simulated.num_sources),
        ("target", simulated.num_sources, simulated.num_nodes),
    ):
        found = service.nodes.busiest(side, 5)
        expected = np.sort(simulated.adjacency.degrees()[low:high])[::-1][:5]
        assert [node.edges for node in found] == expected.tolist()
        assert {node.side for node in found} == {side}
        again = service.nodes.find(found[0].id, side)
        assert again == found[0]


def answers_of_waiting_requests(service, requests):
    """The answers to requests that arrive while the worker is busy, so that they form batches."""
    started, release = threading.Event(), threading.Event()

    def block(items):
        started.set()
        assert release.wait(20)
        return items

    with ThreadPoolExecutor(len(requests) + 1) as pool:
        pool.submit(service.worker.compute, block, [None], key="block", tokens=[1])
        assert started.wait(20)
        answers = [pool.submit(request) for request in requests]
        for _ in range(1_000):
            if len(service.worker) == len(requests):
                break
            threading.Event().wait(0.01)
        release.set()
        return [answer.result(20) for answer in answers]


def nodes_and_scores(answer):
    items = answer.model_dump()
    items = items.get("recommendations") or items["similar"]
    return [item["node"] for item in items], [item["score"] for item in items]


def recommend_some(service, user, candidates):
    return service.start_recommend([user], 5, candidates=candidates).result()[0]


def test_requests_that_wait_get_the_answers_that_they_get_alone(service, simulated):
    users = simulated.node_index.ids_of(range(4))
    items = simulated.node_index.ids_of([simulated.num_sources, simulated.num_sources + 3])
    label = CandidateFilter(deny=items)
    requests = [
        *(partial(service.recommend, user, 5) for user in users),
        *(partial(recommend_some, service, user, label) for user in users),
        *(partial(service.similar, user, 5) for user in users),
        *(
            partial(service.recommend_new, [OwnEdge(target=item, text="Good.")] * count, 5)
            for item in items
            for count in (1, 3)
        ),
    ]
    alone = [request() for request in requests]
    together = answers_of_waiting_requests(service, requests)
    for one, other in zip(alone, together, strict=True):
        (nodes, scores), (batched, batched_scores) = map(nodes_and_scores, (one, other))
        assert batched_scores == pytest.approx(scores, abs=1e-4)  # sums in another order
        ties = np.abs(np.diff(scores)).min() < 1e-4
        assert ties or batched == nodes


def test_an_unknown_node_in_a_batch_fails_alone(service, simulated):
    known = simulated.node_index.ids_of([0])[0]
    requests = [partial(service.recommend, known), partial(service.start_recommend, ["nobody"])]
    answer, pending = requests[0](), requests[1]()
    assert answer.recommendations
    with pytest.raises(UnknownNodeError, match="nobody"):
        pending.result()

    async def wait():
        return await service.start_recommend([known, "nobody"])

    with pytest.raises(UnknownNodeError, match="nobody"):
        asyncio.run(wait())
