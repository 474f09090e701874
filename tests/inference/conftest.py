"""Estimators fitted once, as the tests of estimators have them."""

from tests.estimators.conftest import classifier, predictor  # noqa: F401
