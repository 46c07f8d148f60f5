"""Subtasks for the slots that there are: who lacks the most gets the next one."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.engine.jobmaster.autoscaling.topology import Topology, groups_of, slots_of


def fitting(topology: Topology, wanted: Mapping[int, int], free_slots: int | None) -> dict[int, int]:
    """As much of the wanted parallelism, by vertex, as fits. `free_slots`: besides those of the job; None: all fits.

    Fewer subtasks free slots for others. A group of vertices that have one parallelism keeps it.
    """
    if free_slots is None:
        return dict(wanted)
    slots = slots_of(topology, {}) + free_slots
    groups = {first: members for first, members in groups_of(topology).items() if first in wanted}
    now = {first: members[0].parallelism for first, members in groups.items()}
    given = {first: min(subtasks, wanted[first]) for first, subtasks in now.items()}

    def by_vertex(subtasks: Mapping[int, int]) -> dict[int, int]:
        return {member.id: subtasks[first] for first, members in groups.items() for member in members}

    lacking = {first for first in groups if given[first] < wanted[first]}
    while lacking:
        neediest = max(lacking, key=lambda first: (wanted[first] / given[first], -first))
        more = {**given, neediest: given[neediest] + 1}
        if slots_of(topology, by_vertex(more)) > slots:
            lacking.remove(neediest)
            continue
        given = more
        if given[neediest] == wanted[neediest]:
            lacking.remove(neediest)
    return by_vertex(given)
