"""An endpoint with a job that runs, has failed once, and has taken checkpoints: what pages read is what it answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.service.rest.served import Served, serve_pages_job


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """Two vertices with a subtask each: 100 records/s, a third of the time busy, a sixth back-pressured."""
    one = serve_pages_job(tmp_path, "<b>orders</b>", "<i>a failure</i>")
    yield one
    one.endpoint.close()
