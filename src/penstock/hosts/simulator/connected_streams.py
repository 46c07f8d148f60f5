"""Programs that connect streams in place of their unions, with equal results."""

from __future__ import annotations

import dataclasses

from penstock.hosts.simulator.programs import Node, Program


def with_connected_streams(program: Program) -> Program:
    """Return the program with two connected streams in place of each union, where parallelisms allow it.

    The second stream is a union of all but the first.
    """
    nodes: list[Node] = []
    next_id = max(node.id for node in program.nodes) + 1
    for node in program.nodes:
        if node.kind == "union" and not any(_is_forwarded(program, program.node(id)) for id in node.inputs):
            nodes.append(Node(next_id, "union", node.inputs[1:]))
            parallelism = min(1 + node.id % 3, program.max_parallelism or 3)
            settings = {**node.settings, "amounts": (0, 0)}
            nodes.append(Node(node.id, "connect", (node.inputs[0], next_id), parallelism, settings=settings))
            next_id += 1
        else:
            nodes.append(node)
    return dataclasses.replace(program, nodes=tuple(nodes))


def _is_forwarded(program: Program, node: Node) -> bool:
    """Return whether the consumer of a node must have its parallelism."""
    if node.kind == "partition" and node.settings["how"] != "forward":
        return False
    forwarded = node.kind == "partition"
    through = node.kind in ("partition", "union", "side", "late")
    return forwarded or (through and any(_is_forwarded(program, program.node(id)) for id in node.inputs))
