"""Shared by every pytest folder: the oracle fixture (tests/oracle.py) and the models of bench/models.py."""
import gc
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import oracle as oracle_module  # noqa: E402

_records = {}


@pytest.fixture
def oracle(request):
    """oracle(key, lambda torch: ...) -> PyTorch's answer, live or recorded."""
    name = request.path.stem
    if name not in _records:
        _records[name] = oracle_module.Records(name)
    return oracle_module.Oracle(_records[name], request.node.name)


@pytest.fixture
def bench_model():
    """bench_model(name, small=True, training=False) -> (model, args) of bench/models.py; where the model's package is
    not installed, the test says so."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
    import models

    def made(name, small=True, training=False):
        try:
            return (models.make_training if training else models.make)(name, small)
        except ModuleNotFoundError as e:
            pytest.skip(f"NOT TESTED: {name} needs {e.name}: ./dev setup --bench")
    return made


def pytest_collection_finish(session):
    """What was imported so far is nobody's garbage: the collector, which many tests call and all wake, looks at what
    tests make alone."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session, exitstatus):
    if os.environ.get("CRESSET_RECORD") and exitstatus == 0:
        for records in _records.values():
            if records.asked:
                records.write()
