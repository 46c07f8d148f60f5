"""Programs with hybrid sources: the first splits belong to one source, the others to the next."""

from __future__ import annotations

import dataclasses

from penstock.hosts.simulator.programs import Program


def with_hybrid_sources(program: Program) -> Program:
    """Return the program with a HybridSource in place of each source that has two or more splits."""
    nodes = []
    for node in program.nodes:
        if node.kind == "source" and len(node.settings["splits"]) > 1:
            # The first half of the splits belongs to the first source. For odd nodes a factory creates the second one.
            cut = len(node.settings["splits"]) // 2
            node = dataclasses.replace(
                node, settings={**node.settings, "cut": cut, "made_at_switch": bool(node.id % 2)}
            )
        nodes.append(node)
    return dataclasses.replace(program, nodes=tuple(nodes))
