"""int8 linear maps."""

import pytest
import torch
from torch import nn

from edgeformers.errors import InputError
from edgeformers.nn.fast.int8 import Int8Linear, quantize_int8
from tests.tiny_models import make_tiny
from tests.training.batches import edges


def test_values_representable_in_int8_are_exact():
    linear = nn.Linear(2, 2)
    linear.weight.data = torch.tensor([[127.0, 1.0], [-254.0, 64.0]])  # scales 1 and 2
    linear.bias.data = torch.tensor([0.5, -1.0])
    rows = torch.tensor([[127.0, -3.0], [0.0, 254.0], [0.0, 0.0]])  # scales 1, 2 and none
    with torch.no_grad():
        torch.testing.assert_close(Int8Linear(linear)(rows), linear(rows))


@pytest.mark.parametrize("shape", [(5, 64), (2, 3, 64), (1, 64)])
@torch.no_grad()
def test_an_outlier_row_does_not_affect_other_rows(shape):
    torch.manual_seed(0)
    linear, rows = nn.Linear(64, 32, bias=False), torch.randn(shape)
    rows.flatten(0, -2)[0] *= 1e4
    found, exact = Int8Linear(linear)(rows), linear(rows)
    errors = (found - exact).norm(dim=-1) / exact.norm(dim=-1)
    assert float(errors.max()) < 0.02


@torch.no_grad()
def test_a_quantized_copy_is_close_and_the_model_is_unchanged():
    model, batch = make_tiny("edgeformer-e"), edges(9)
    exact = model(batch)
    quantized = quantize_int8(model)
    kinds = {type(m) for m in quantized.encoder.layers.modules()}
    assert Int8Linear in kinds
    assert nn.Linear not in kinds
    cosines = torch.cosine_similarity(quantized(batch), exact)
    assert 0.98 < float(cosines.min()) < 1
    assert torch.equal(model(batch), exact)


def test_a_model_without_language_model_is_refused():
    with pytest.raises(InputError, match="GIN"):
        quantize_int8(make_tiny("gin"))
