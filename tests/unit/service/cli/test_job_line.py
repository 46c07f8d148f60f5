"""A job of a cluster in one line."""

from __future__ import annotations

import pytest

from penstock.service.cli.local_clusters import job_line

JOB = {"id": "a", "job_id": "b", "name": "counts", "status": "FAILED", "phase": "ENDED", "waiting": "", "slots": 2}


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("", "counts"),
        ("there is no file\nIn / there is: in.txt", "counts: there is no file"),
        (
            "operator 'out': Traceback (most recent call last):\n  File \"a.py\", line 1\nValueError: no table",
            "counts: operator 'out': ValueError: no table",
        ),
        ("Traceback (most recent call last):", "counts: Traceback (most recent call last):"),
    ],
)
def test_why_a_job_has_failed_is_told(error: str, told: str) -> None:
    """The first line of a traceback says nothing."""
    assert job_line({**JOB, "submitted_ms": 0, "error": error}).endswith(told)
