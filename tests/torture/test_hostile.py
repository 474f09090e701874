"""A sample of each hostile suite; `make torture` runs them in full."""

from itertools import islice

import pytest

from tests.torture import flipped_bits, hostile_models, hostile_tables


@pytest.mark.parametrize("kind", list(hostile_tables.BUILDERS))
def test_a_hostile_table_is_rejected_or_prepared(kind):
    cases = (case for case in hostile_tables.cases(seed=1) if case.kind == kind)
    for case in islice(cases, 2):
        outcome = hostile_tables.run(case)
        assert outcome.kind in ("rejected", "accepted"), outcome.detail


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(hostile_models.KINDS))
def test_a_hostile_folder_is_rejected_or_has_no_effect(kind):
    case = next(case for case in hostile_models.cases(seed=1) if case.kind == kind)
    outcome = hostile_models.run(case)
    assert outcome.kind in ("rejected", "accepted"), outcome.detail


@pytest.mark.slow
def test_a_flipped_bit_is_detected_or_has_no_effect():
    for case in islice(flipped_bits.cases(seed=1), 5):
        outcome = flipped_bits.run(case)
        assert outcome.kind in ("rejected", "accepted"), outcome.detail
