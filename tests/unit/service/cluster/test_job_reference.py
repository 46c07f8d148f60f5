"""How commands name a job."""

from __future__ import annotations

import pytest

from penstock.service.cluster.job_reference import matching_jobs

JOBS = [("counts", ["ab12", "cd34"]), ("ab", ["ef56"]), ("counts by day", ["ab99"])]


@pytest.mark.parametrize(
    ("reference", "meant"),
    [
        ("counts", ["counts"]),
        ("ab12", ["counts"]),
        ("AB12", ["counts"]),
        ("CD", ["counts"]),
        (" ef56 ", ["ab"]),
        ("ab", ["ab"]),
        ("ab1", ["counts"]),
        ("a", ["counts", "ab", "counts by day"][::2]),
        ("", []),
        (" ", []),
        ("Counts", []),
    ],
)
def test_a_job_is_named_by_its_name_or_by_the_beginning_of_an_id(reference: str, meant: list[str]) -> None:
    """A command that meant another job would cancel it; ids that a page shows in capitals would be those of none."""
    found = matching_jobs(reference, JOBS, lambda job: job[0], lambda job: job[1])
    assert [name for name, _ in found] == meant
