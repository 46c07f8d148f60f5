"""The phases of regions and jobs are data: what is not in the tables can't happen, and the manual shows what is."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.jobmaster.phases import JOB, REGION, JobPhase, JobStep, RegionPhase, RegionStep, after

DOCUMENT = Path(__file__).parents[4] / "docs" / "internals" / "a-jobs-way.md"
TABLES: list[tuple[Mapping[Any, Any], type[enum.Enum], type[enum.Enum]]] = [
    (REGION, RegionPhase, RegionStep),
    (JOB, JobPhase, JobStep),
]


def drawn(table: Mapping[Any, Any]) -> str:
    """A table as the manual shows it."""
    rows = [f"| {phase.name} | {phase.value} | {step.value} | {table[phase, step].name} |" for phase, step in table]
    return "\n".join(rows)


@pytest.mark.parametrize(("table", "phases", "steps"), TABLES)
def test_what_is_not_in_the_table_cannot_happen(
    table: Mapping[Any, Any], phases: type[enum.Enum], steps: type[enum.Enum]
) -> None:
    """A region would be deployed while tasks of its former attempt still write, or a job would finish twice."""
    for phase in phases:
        for step in steps:
            if (phase, step) in table:
                assert after(table, phase, step) is table[phase, step]
            else:
                with pytest.raises(AssertionError, match=f"{step.name} .* can't happen while {phase.name}"):
                    after(table, phase, step)


@pytest.mark.parametrize(("table", "phases", "steps"), TABLES)
def test_every_phase_is_reached(table: Mapping[Any, Any], phases: type[enum.Enum], steps: type[enum.Enum]) -> None:
    """A job would wait for ever in a phase that nothing ends, or a phase would be dead code."""
    first = next(iter(phases))
    reached = {first}
    while more := {to for (phase, _), to in table.items() if phase in reached} - reached:
        reached |= more
    assert reached == set(phases)
    assert {step for _, step in table} == set(steps)


@pytest.mark.parametrize(("table", "phases", "steps"), TABLES)
def test_the_manual_draws_the_table(table: Mapping[Any, Any], phases: type[enum.Enum], steps: type[enum.Enum]) -> None:
    """A reader of the manual would look for a phase that is not there any more."""
    assert drawn(table) in DOCUMENT.read_text(encoding="utf-8"), f"it should read\n{drawn(table)}"
