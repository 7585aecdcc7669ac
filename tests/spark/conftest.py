"""Real Spark, on this machine: left out where it is not installed (make test-spark)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import components

collect_ignore_glob = [] if importlib.util.find_spec("pyspark") else ["test_*.py"]


def pytest_collection_modifyitems(items):
    """PySpark warns of every new pandas; and without Java nothing here can be checked."""
    here = Path(__file__).parent
    ours = [item for item in items if here in Path(item.path).parents]
    try:
        components.find_java()
        missing = None
    except components.MissingError as error:
        missing = pytest.mark.skip(reason=str(error))
    for item in ours:
        item.add_marker(pytest.mark.filterwarnings("ignore::FutureWarning"))
        item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
        if missing:
            item.add_marker(missing)
