"""What holds for all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest

# Made in the background after a first job, it would take its time from the tests that follow.
os.environ.setdefault("PENSTOCK_CLASS_ARCHIVE", "off")

LONG_FILES_FIRST = ["e2e", "spark", "simulation"]
"""Folders whose files take minutes. Processes that share the tests begin with them, so that they end together."""


@pytest.fixture(scope="session", autouse=True)
def relative_names_lead_out_of_the_tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a program writes by a relative name, as those of the documentation do, would end in a commit."""
    with chdir(tmp_path_factory.mktemp("working_directory")):
        yield


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put files in the order in which pytest-xdist hands them to its processes."""
    if hasattr(config, "workerinput"):
        items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    return LONG_FILES_FIRST.index(folder) if folder in LONG_FILES_FIRST else len(LONG_FILES_FIRST)
