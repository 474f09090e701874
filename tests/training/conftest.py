"""Runs made once by the program, as the tests of the command line have them."""

from tests.cli.conftest import trained  # noqa: F401
