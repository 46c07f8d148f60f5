"""Runs a seed: its program and circumstances, the simulation, and the comparison with the plain evaluation."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable
from random import Random
from typing import Any

from penstock.common.errors import UserFunctionError
from penstock.common.job_status import JobStatus
from penstock.engine.plan.job_graph import JobGraph
from penstock.hosts.simulator.batched import BatchedSimulation
from penstock.hosts.simulator.building import Built, build
from penstock.hosts.simulator.circumstances import Circumstances
from penstock.hosts.simulator.comparison import compare
from penstock.hosts.simulator.evaluation import evaluate
from penstock.hosts.simulator.generation import generate
from penstock.hosts.simulator.lifecycles import recorded
from penstock.hosts.simulator.outside import Results
from penstock.hosts.simulator.programs import Program
from penstock.hosts.simulator.report import Trace, failure
from penstock.hosts.simulator.simulation import Simulation
from penstock.hosts.simulator.step_limit import STEPS_MAX, StepLimit
from penstock.hosts.simulator.user import check_versions


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    program: Program
    status: JobStatus
    steps: int
    digest: int
    cuts: int = 0
    drained: bool = False
    """Whether the user ended the job before the end of its input."""


def run_seed(seed: int, echo: Callable[[str], None] | None = None) -> Outcome:
    """Run a seed. Raises SimulationError, with everything needed to replay it, if an invariant is violated."""
    return run_program(generate(seed), Circumstances.draw(Random(seed + 1)), seed, echo)


def run_program(
    program: Program,
    circumstances: Circumstances,
    seed: int,
    echo: Callable[[str], None] | None = None,
    named: bool = True,
    step_limit: int = STEPS_MAX,
) -> Outcome:
    """Run a program. `seed` determines the schedule; `named`: it also determined the program.

    `step_limit`: a job with so many steps and hardly a result counts as one that never ends.
    """
    trace = Trace(echo)
    if echo is not None:
        echo(f"{program}\n  {circumstances}")
    try:
        with recorded() as lifecycles:
            outcome, results, repeated, redistributed = _run(
                program=program,
                circumstances=circumstances,
                random=Random(seed),
                trace=trace,
                step_limit=step_limit,
            )
        wrong = lifecycles.wrong()
        assert not wrong, f"functions that were not opened once and closed once: {wrong[:3]}"
        if outcome.status is JobStatus.FINISHED and not outcome.drained:
            compare(program, results, repeated, redistributed)
    except Exception as error:
        what = str(error) if isinstance(error, AssertionError) and str(error) else f"{type(error).__name__}: {error}"
        raise failure(seed if named else None, what, f"{program}\n  {circumstances}", trace) from error
    return outcome


def _run(
    program: Program, circumstances: Circumstances, random: Random, trace: Trace, step_limit: int
) -> tuple[Outcome, dict[int, Any], bool, bool]:
    """Return the outcome, the output by sink and subtask, whether records may have been reread, or redistributed."""
    built = build(program)
    limit = StepLimit(lambda: evaluate(program).records, step_limit)
    if program.batched:
        batched = BatchedSimulation(built.graph, random, circumstances, trace)
        batched.step_limit = limit
        return *_run_batched(program, built, batched), False, False

    def other_parallelisms(chance: Random) -> JobGraph:
        return build(rescaled(program, chance)).graph

    if not may_shrink(program):
        circumstances = dataclasses.replace(circumstances, slots_change_at_steps=())
    simulation = Simulation(
        graph=built.graph,
        random=random,
        circumstances=circumstances,
        trace=trace,
        exact_time=program.exact_time,
        rescaled=other_parallelisms,
    )
    simulation.step_limit = limit
    try:
        status = simulation.run()
    finally:
        # A simulation that ends by an assertion leaves calls of asynchronous functions open.
        for host in simulation.hosts.values():
            host.close_calls()
    if status is JobStatus.FAILED:
        error = simulation.error
        assert error is not None
        if not simulation.driver.drained:
            _check_failure(program, error)
    else:
        cancelled = circumstances.cancel_at_step is not None
        assert status is JobStatus.FINISHED or (status is JobStatus.CANCELED and cancelled), f"the job is {status}"
        # A drain may come before the record on which the function raises.
        ends_early = status is JobStatus.CANCELED or simulation.driver.drained
        assert ends_early or not _must_fail(program), "a function raised, and the job did not fail"
    if status is JobStatus.FINISHED:
        hosts = simulation.hosts.values()
        check_versions(simulation.master.graph, [host.slot for host in hosts if host.slot is not None])
    outcome = Outcome(
        program, status, trace.steps, trace.digest, cuts=simulation.cuts, drained=simulation.driver.drained
    )
    repeated = bool(simulation.went_back) and not circumstances.exactly_once
    redistributed = simulation.workers.were_rescaled and circumstances.unaligned_after_ms is not None
    return outcome, _by_sink(simulation.outside.results, built), repeated, redistributed


def may_shrink(program: Program) -> bool:
    """Return whether all operators may have fewer subtasks with equal output: see `rescaled`."""
    return not program.exact_time and not any(node.settings.get("how") == "broadcast" for node in program.nodes)


def rescaled(program: Program, random: Random) -> Program:
    """Return the program with other parallelisms: nodes with equal parallelism stay equal.

    If no record may be late, splits stay with their subtasks: reading them in another order would make records rightly
    late. The output of a broadcast depends on the number of receivers, so such programs are unchanged.
    """
    if any(node.settings.get("how") == "broadcast" for node in program.nodes):
        return program
    new_parallelism = {parallelism: random.randint(1, 4) for parallelism in range(2, 9)}
    if program.exact_time:
        new_parallelism.update({node.parallelism: node.parallelism for node in program.nodes if node.kind == "source"})
    nodes = [dataclasses.replace(node, parallelism=new_parallelism.get(node.parallelism, 1)) for node in program.nodes]
    most = program.max_parallelism
    if most is not None:
        nodes = [dataclasses.replace(node, parallelism=min(node.parallelism, most)) for node in nodes]
    return dataclasses.replace(program, nodes=tuple(nodes))


def _run_batched(program: Program, built: Built, simulation: BatchedSimulation) -> tuple[Outcome, dict[int, Any]]:
    status = JobStatus.FINISHED
    try:
        simulation.run()
    except UserFunctionError as error:
        _check_failure(program, error)
        status = JobStatus.FAILED
    else:
        assert not _must_fail(program), "a function raised, and the job did not fail"
    outcome = Outcome(program, status, simulation.trace.steps, simulation.trace.digest)
    return outcome, _by_sink(simulation.outside.results, built)


def _by_sink(results: Results, built: Built) -> dict[int, Any]:
    by_sink: dict[int, Any] = defaultdict(dict)
    for (sink, subtask), values in results.items():
        by_sink[built.sinks[sink]][subtask] = values
    return by_sink


# Failures.


def _raising_records(program: Program) -> list[Any]:
    """Return the records on which the raising function raises, as far as known; [None] if unknown."""
    for node in program.nodes:
        if node.kind == "raise":
            nodes = [*program.nodes, dataclasses.replace(node, id=len(program.nodes), kind="collect")]
            part = evaluate(dataclasses.replace(program, nodes=tuple(nodes))).sinks[len(program.nodes)]
            if not part.exact:
                return [None]
            return [record for record, _ in part.records if record[3] % 10 == node.settings["on"]]
    return []


def _must_fail(program: Program) -> bool:
    records = _raising_records(program)
    return bool(records) and records != [None]


def _check_failure(program: Program, error: BaseException) -> None:
    expected = _raising_records(program)
    if isinstance(error, UserFunctionError) and "does not like" in str(error) and expected:
        return
    raise AssertionError(f"the job failed: {error}") from error
