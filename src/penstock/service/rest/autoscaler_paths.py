"""The decisions of a job's autoscaler. Flink's autoscaler is a separate project, which writes events of Kubernetes."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from penstock.engine.jobmaster.notices import Autoscaled
from penstock.engine.plan.job_graph import JobVertex
from penstock.engine.plan.vertex_ids import vertex_id
from penstock.service.rest.answers import get, job_of


def decisions(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/autoscaler: the newest decisions of the autoscaler, oldest first, with their reasons."""
    graph = job_of(request).graph
    return {"decisions": [_decision(notice, graph.graph.vertices) for notice in graph.autoscaled]}


def _decision(notice: Autoscaled, vertices: list[JobVertex]) -> dict[str, Any]:
    return {
        "timestamp": notice.decision.at_ms,
        "done": notice.done,
        "reason": notice.why,
        "notes": list(notice.decision.notes),
        "vertices": [
            {
                "id": vertex_id(vertices[scaling.vertex]),
                "name": scaling.name,
                "currentParallelism": scaling.before,
                "newParallelism": scaling.after,
                "reason": scaling.reason,
            }
            for scaling in notice.decision.vertices
        ],
    }


routes = [get("/jobs/{jobid}/autoscaler", decisions)]
