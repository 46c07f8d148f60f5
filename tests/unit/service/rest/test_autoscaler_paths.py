"""What the autoscaler has decided, over REST."""

from __future__ import annotations

from pathlib import Path

from tests.unit.engine.jobmaster.autoscaling.test_job_autoscaling import Loaded
from tests.unit.service.rest.served import PlayedJob, Served

from penstock.engine.jobmaster.events import SlotsCounted
from penstock.engine.plan.vertex_ids import vertex_id


def test_decisions_are_read_with_their_reasons(tmp_path: Path) -> None:
    """Who watches many jobs would have to read the log of each."""
    loaded = Loaded()
    job = PlayedJob(loaded.job.graph)
    job.played = loaded.job
    served = Served(tmp_path, job)
    assert served.get("/jobs/id/autoscaler") == {"decisions": []}
    loaded.works(5_500)
    loaded.job.handle(SlotsCounted(3))
    (decision,) = served.get("/jobs/id/autoscaler")["decisions"]
    assert decision.pop("timestamp") > 0
    reducer = loaded.job.graph.vertices[1]
    assert decision == {
        "done": True,
        "reason": "",
        "notes": [f"3 more slots are needed, but Spark has 1 free slots: {reducer.name} 4"],
        "vertices": [
            {
                "id": vertex_id(reducer),
                "name": reducer.name,
                "currentParallelism": 1,
                "newParallelism": 2,
                "reason": "the input is 2,000 records/s, 1 subtask can process 1,000",
            }
        ],
    }
    served.endpoint.close()
