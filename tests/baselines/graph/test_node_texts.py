import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edgeformers.baselines.graph.node_texts import NodeTextConfig
from edgeformers.data.batch import join_ego_texts
from edgeformers.errors import ConfigError
from edgeformers.nn.packed import PackedText
from edgeformers.nn.ragged import Ragged
from tests.baselines.stars import TEXTS, make_batch
from tests.baselines.test_edge_models import EXAMPLES, context_of


def as_lists(text):
    ids, at = text.token_ids.tolist(), text.offsets.tolist()
    return [ids[at[i] : at[i + 1]] for i in range(text.num_texts)]


def test_a_node_has_the_texts_around_it_and_an_edge_keeps_its_own():
    texts = context_of(EXAMPLES, limit=12).node_texts
    assert as_lists(texts.text) == [
        *(text for (_, _, text), _, _ in EXAMPLES),
        [2, 8, 8, 3, 9, 3],  # the sources of the first two edges; the others have no edges
        [2, 6, 3, 6, 3],
        [2, 3, 7, 5, 3],  # the targets of the first three
        [2, 5, 6, 3],
        [2, 3, 11, 3, 12, 13, 3],
    ]
    assert texts.owner.tolist() == [0, 1, 2, 3, 0, 1, 0, 1, 2]
    assert texts.order.tolist() == [0, 4, 6, 1, 5, 7, 2, 8, 3]
    assert texts.groups.offsets.tolist() == [0, 3, 6, 8, 9]


def test_texts_are_joined_in_a_fixed_order_after_one_cls():
    batch = make_batch(center=(0, 1), counts=(2, 1), neighbor=(3, 4, 5), texts=TEXTS[2:5])
    joined = join_ego_texts(batch.text, batch.egos, 8)
    assert as_lists(joined) == [[2, 7, 3, 9, 9, 9, 9, 3], TEXTS[4]]
    assert as_lists(join_ego_texts(batch.text, batch.egos, 4)) == [[2, 7, 3, 9], TEXTS[4]]


texts_of_egos = st.lists(
    st.lists(st.lists(st.integers(0, 70_000), min_size=1, max_size=6), min_size=1, max_size=4),
    max_size=4,
)


def join_one(texts, limit):
    """What `join_ego_texts` does, one group at a time."""
    ordered = sorted(texts, key=lambda ids: np.array(ids).astype(">u4").tobytes())
    return [ordered[0][0], *(token for text in ordered for token in text[1:])][:limit]


@given(egos=texts_of_egos, limit=st.integers(1, 20), random=st.randoms())
def test_joined_texts_keep_the_limit_and_do_not_depend_on_order(egos, limit, random):
    def join(egos):
        texts = [text for ego in egos for text in ego]
        offsets = torch.tensor([0, *map(len, egos)]).cumsum(0)
        groups = Ragged.from_offsets(offsets.numpy())
        return as_lists(join_ego_texts(PackedText.from_lists(texts), groups, limit))

    assert join(egos) == [join_one(ego, limit) for ego in egos]
    assert join([random.sample(ego, len(ego)) for ego in egos]) == join(egos)


def test_node_tokens_must_be_positive():
    with pytest.raises(ConfigError, match=r"node_tokens must be at least 1 \(got 0\)"):
        NodeTextConfig(num_nodes=3, node_tokens=0)
