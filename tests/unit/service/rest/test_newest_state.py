"""What is answered of committed state where there is none."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.service.rest.served import PlayedJob

from penstock.common.errors import StateNotFoundError
from penstock.common.job_status import JobStatus
from penstock.service.rest.newest_state import NewestState


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (JobStatus.RUNNING, "the job has no completed checkpoint yet"),
        (JobStatus.CANCELLING, "the job is CANCELLING: its checkpoints, from which queries are answered, are deleted"),
        (JobStatus.FAILED, "the job is FAILED"),
    ],
)
def test_a_job_that_ends_is_not_one_that_has_just_begun(status: JobStatus, told: str) -> None:
    """A client would wait for the first checkpoint of a job that had dozens."""
    graph = msgspec.structs.replace(PlayedJob().execution_graph, status=status)
    with pytest.raises(StateNotFoundError, match=told):
        NewestState(looks=1).ask(lambda: graph, "/nowhere", lambda state: state)
