"""Estimators fitted once, as the tests of estimators have them."""

from tests.cli.conftest import trained  # noqa: F401
from tests.estimators.conftest import classifier, predictor  # noqa: F401
