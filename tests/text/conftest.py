"""The --update option of the graph files."""
import pytest


def pytest_addoption(parser):
    parser.addoption("--update", action="store_true", help="write what comes out into the .crg files")


@pytest.fixture
def update(request):
    return request.config.getoption("--update")
