import pytest
import torch

from edgeformers.errors import InputError
from edgeformers.nn.nodes import NodeLookup, NodeProjection

NODES = torch.tensor([[0, 3], [2, -1]])


def make(**options):
    torch.manual_seed(0)
    lookup = NodeLookup(4, 3, **options)
    torch.nn.init.normal_(lookup.table[-1:])
    return lookup.eval()


def test_a_node_is_its_row_and_an_unknown_one_the_last():
    lookup = make()
    expected = lookup.table[torch.tensor([[0, 3], [2, 4]])]
    torch.testing.assert_close(lookup(NODES), expected)
    assert lookup(torch.zeros(0, 2, dtype=torch.long)).shape == (0, 2, 3)


def test_the_table_starts_as_the_release_does_and_the_unknown_node_at_zero():
    torch.manual_seed(0)
    table = NodeLookup(2000, 48).table
    assert not table[-1].any()
    assert table[:-1].std().item() == pytest.approx((2 / 2048) ** 0.5, rel=0.02)


def test_nodes_marked_unseen_are_read_as_unknown():
    lookup = make()
    lookup.mark_seen(torch.tensor([True, True, True, False]))
    torch.testing.assert_close(lookup(torch.tensor([3])), lookup(torch.tensor([-1])))
    torch.testing.assert_close(lookup(torch.tensor([2])), lookup.table[2:3])


def test_dropout_reads_a_share_of_nodes_as_unknown_in_training_alone():
    lookup = make(node_dropout=0.25)
    nodes = torch.zeros(4000, dtype=torch.long)
    assert torch.equal(lookup(nodes), lookup.table[:1].expand(4000, 3))
    torch.manual_seed(1)
    dropped = (lookup.train()(nodes) == lookup.table[-1]).all(1)
    assert dropped.float().mean().item() == pytest.approx(0.25, abs=0.03)


def test_shrinkage_reads_nodes_with_few_edges_as_unknown_more_often():
    lookup = make(node_shrinkage=3.0)
    lookup.set_edge_counts(torch.tensor([1, 9, 0, 27]))
    torch.manual_seed(1)
    for node, share in ((0, 0.75), (1, 0.25), (2, 1.0), (3, 0.1)):
        z = lookup.train()(torch.full((4000,), node))
        is_unknown = (z == lookup.table[-1]).all(1)
        assert is_unknown.float().mean().item() == pytest.approx(share, abs=0.03)


def test_after_training_a_shrunk_node_is_the_mean_over_its_dropout():
    lookup = make(node_shrinkage=3.0)
    lookup.set_edge_counts(torch.tensor([1, 9, 0, 27]))
    node, unknown = lookup.table[0], lookup.table[-1]
    torch.testing.assert_close(lookup(NODES)[0, 0], (node + 3 * unknown) / 4)
    torch.testing.assert_close(lookup(NODES)[1], unknown.expand(2, 3))  # no edges, and node -1
    drawn = lookup.train()(torch.zeros(20_000, dtype=torch.long)).mean(0)
    torch.testing.assert_close(drawn, lookup.eval()(torch.tensor([0]))[0], atol=0.02, rtol=0)


def test_features_are_mapped_and_added_also_to_an_unseen_node():
    lookup = make(feature_width=2)
    features = torch.randn(4, 2)
    lookup.set_features(features)
    added = features @ lookup.feature_map.weight.T
    torch.testing.assert_close(lookup(torch.tensor([1])), lookup.table[1:2] + added[1:2])
    lookup.mark_seen(torch.tensor([True, False, True, True]))
    torch.testing.assert_close(lookup(torch.tensor([1])), lookup.table[4:] + added[1:2])
    torch.testing.assert_close(lookup(torch.tensor([-1])), lookup.table[4:])


def test_given_vectors_start_the_table_and_leave_the_unknown_node():
    lookup = make()
    unknown, vectors = lookup.table[-1].clone(), torch.randn(4, 3)
    lookup.set_table(vectors)
    assert torch.equal(lookup.table[:4], vectors)
    assert torch.equal(lookup.table[-1], unknown)


def test_sparse_gradients_are_the_same_gradients():
    dense, sparse = make(), make(sparse=True)
    for lookup in (dense, sparse):
        lookup(NODES).pow(2).sum().backward()
    assert sparse.table.grad.is_sparse
    torch.testing.assert_close(sparse.table.grad.to_dense(), dense.table.grad)
    assert dense.table.grad[-1].any()
    assert not dense.table.grad[1].any()


@pytest.mark.parametrize(
    ("act", "word"),
    [
        (lambda n: n.set_table(torch.ones(3, 3)), r"\[3, 3\]"),
        (lambda n: n.set_features(torch.ones(4, 2)), "feature_width"),
        (lambda n: n.check(torch.tensor([4])), "4"),
        (lambda n: n.check(torch.tensor([0, -2])), "-2"),
        (lambda n: n.check(torch.tensor([1.0])), "float32"),
        (lambda n: n.check(torch.tensor([True])), "bool"),
        (lambda n: n.mark_seen(torch.tensor([True])), r"\[1\]"),
        (lambda n: n.mark_seen(torch.ones(4)), "float32"),
        (lambda n: n.set_edge_counts(torch.ones(3)), r"\[3\]"),
    ],
)
def test_values_that_do_not_fit_the_table_are_refused(act, word):
    with pytest.raises(InputError, match=word):
        act(make())


def test_fitting_numbers_pass_the_check():
    make().check(torch.tensor([-1, 0, 3], dtype=torch.int32))
    make().check(torch.zeros(0, dtype=torch.long))


def test_one_map_projects_every_token():
    torch.manual_seed(0)
    projection, z = NodeProjection(3, 5), torch.randn(4, 2, 3)
    assert projection.maps[0].bias is None
    torch.testing.assert_close(projection(z), z @ projection.maps[0].weight.T)


def test_each_edge_type_has_its_map_and_no_type_reads_the_first():
    torch.manual_seed(0)
    projection, z = NodeProjection(3, 5, edge_types=3, bias=True), torch.randn(4, 2, 3)
    tokens = projection(z, torch.tensor([2, 0, 1, -1]))
    for row, kind in enumerate([2, 0, 1, 0]):
        torch.testing.assert_close(tokens[row], projection.maps[kind](z[row]))
    torch.testing.assert_close(projection(z), projection.maps[0](z))


def test_a_role_is_added_for_source_and_target():
    torch.manual_seed(0)
    projection, z = NodeProjection(3, 5, direction=True), torch.randn(1, 2, 3)
    torch.nn.init.normal_(projection.role)
    plain = projection(z)
    told = projection(z, None, torch.tensor([[True, False]]))
    torch.testing.assert_close(told - plain, projection.role[[1, 0]][None])
