"""Two runs trained once, a service of them, and a client within the process."""

import pytest
from fastapi.testclient import TestClient

from edgeformers.estimators import EdgeClassifier, LinkPredictor
from edgeformers.serve.app import create_app
from edgeformers.serve.service import Service
from tests.estimators.conftest import tiny


@pytest.fixture(scope="session")
def runs(simulated, tmp_path_factory):
    """The folders of an edge run and a link run; not to be written to."""
    folder = tmp_path_factory.mktemp("runs")
    tiny(EdgeClassifier, **{"train.epochs": 1}).fit(simulated, run=folder / "edges")
    tiny(LinkPredictor).fit(simulated, run=folder / "links")
    return [folder / "edges", folder / "links"]


@pytest.fixture(scope="session")
def service(runs):
    """A service of both runs, which no test changes."""
    service = Service(runs, device="cpu")
    yield service
    service.close()


@pytest.fixture(scope="session")
def client(service):
    """A client of the application."""
    return TestClient(create_app(service))  # without `with`: the service stays open
