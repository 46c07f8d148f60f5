"""An endpoint for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.service.rest.served import Served


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """With a job of two vertices with two subtasks each."""
    one = Served(tmp_path)
    yield one
    one.endpoint.close()
