"""Programs whose sources are hybrid: the first splits are those of one source, the others of the next."""

from __future__ import annotations

import dataclasses

from penstock.hosts.simulator.programs import Program


def in_turn(program: Program) -> Program:
    """The same program, with a HybridSource in place of each source that has two splits or more."""
    nodes = []
    for node in program.nodes:
        if node.kind == "source" and len(node.settings["splits"]) > 1:
            # Half of the splits are read first; those that a factory makes are every other one.
            cut = len(node.settings["splits"]) // 2
            node = dataclasses.replace(
                node, settings={**node.settings, "cut": cut, "made_at_switch": bool(node.id % 2)}
            )
        nodes.append(node)
    return dataclasses.replace(program, nodes=tuple(nodes))
