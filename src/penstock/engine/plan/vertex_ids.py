"""Compute the ids that identify vertices and operators in REST requests and in the configuration."""

from __future__ import annotations

import hashlib

from penstock.engine.plan.job_graph import JobVertex
from penstock.engine.plan.stream_graph import StreamNode


def vertex_id(vertex: JobVertex) -> str:
    """Return the id of a vertex: 32 hexadecimal digits, the same in each run of a program."""
    return operator_id(vertex.nodes[0])


def operator_id(node: StreamNode) -> str:
    """Return the id of an operator, in the same form."""
    return hashlib.md5(node.uid.encode(errors="replace"), usedforsecurity=False).hexdigest()
