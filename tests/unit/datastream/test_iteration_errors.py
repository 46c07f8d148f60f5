"""Structured iterations that can't run are refused in the call, or at submission, with what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.iteration_programs import CALM, results
from tests.simulation.programs import environment, graph_of, simulate

from penstock.api.source import Boundedness
from penstock.common.errors import ProgramError
from penstock.common.job_status import JobStatus
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream.functions import FlatMapFunction, ProcessFunction
from penstock.iteration import (
    IterationBodyResult,
    IterationConfig,
    IterationListener,
    Iterations,
    MaxAggregator,
    SumAggregator,
    iterate,
    iterate_delta,
    with_broadcast_set,
)


class Endless(NumberSequenceSource):
    def get_boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED


class Listening(ProcessFunction[Any, Any], IterationListener):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class FlatListening(FlatMapFunction[Any, Any], IterationListener):
    def flat_map(self, value: Any) -> Any:
        yield value


def same(record: Any) -> Any:
    return record


def numbers(env: Any) -> Any:
    return env.from_collection([1, 2, 3])


def begun(env: Any) -> Any:
    return iterate(numbers(env), 3)


def from_outside(env: Any) -> None:
    begun(env).close_with(numbers(env))


def union_with_outside(env: Any) -> None:
    iteration = begun(env)
    iteration.close_with(iteration.map(same).union(numbers(env)))


def termination_from_outside(env: Any) -> None:
    iteration = begun(env)
    iteration.close_with(iteration, termination=numbers(env))


def closed_twice(env: Any) -> None:
    iteration = begun(env)
    iteration.close_with(iteration)
    iteration.close_with(iteration)


def deferred_closed_twice(env: Any) -> None:
    pairs = numbers(env).map(lambda number: (number, number))
    iteration = iterate_delta(pairs, pairs, 3, key=lambda pair: pair[0], deferred=True)
    for _ in range(2):
        iteration.close_with(iteration.workset, iteration.workset)


def another_delta(env: Any) -> None:
    pairs = numbers(env).map(lambda number: (number, number))
    iteration = iterate_delta(pairs, pairs, 3, key=lambda pair: pair[0])
    iteration.close_with(iteration.workset, iteration.workset)


def two_environments(env: Any) -> None:
    begun(env).close_with(numbers(environment()))


def variable_missing(env: Any) -> None:
    Iterations.iterate_unbounded_streams([numbers(env)], [], lambda variables, data: IterationBodyResult([]))


def criterion_missing_aggregator(env: Any) -> None:
    iterate(numbers(env), criteria={"sum": SumAggregator()})  # type: ignore[dict-item]


def unbounded(env: Any) -> Any:
    return env.from_source(Endless(1, 9), WatermarkStrategy.no_watermarks(), "endless")


def endless(env: Any) -> None:
    iterate(unbounded(env).map(same), 3)


def endless_termination(env: Any) -> None:
    iteration = iterate(unbounded(env))
    iteration.close_with(iteration.map(same), termination=iteration)


def endless_slack(env: Any) -> None:
    iterate(unbounded(env), slack=1)


def endless_replayed(env: Any) -> None:
    begun(env).replay(unbounded(env))


def endless_for_bounded(env: Any) -> None:
    Iterations.iterate_bounded_streams_until_termination(
        [unbounded(env)], [], IterationConfig(), lambda variables, data: IterationBodyResult(variables)
    )


def deferred_slack(env: Any) -> None:
    iterate_delta(numbers(env), numbers(env), key=same, deferred=True, slack=1)


def negative_slack(env: Any) -> None:
    iterate(numbers(env), slack=-1)


def broadcast_set_outside(env: Any) -> None:
    with_broadcast_set(numbers(env), numbers(env), lambda records, _: records)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (endless, "the source 'endless' is unbounded"),
        (endless_termination, "has no termination"),
        (endless_slack, "no slack"),
        (endless_replayed, "needs a bounded stream"),
        (endless_for_bounded, "use Iterations.iterate_unbounded_streams"),
        (deferred_slack, "has no slack"),
        (negative_slack, "slack must be an int of 0 or more"),
        (broadcast_set_outside, "needs a stream of a structured iteration"),
        (from_outside, "'Collection Source' comes from outside"),
        (union_with_outside, "'Collection Source' comes from outside"),
        (termination_from_outside, "'Collection Source' comes from outside"),
        (closed_twice, "is closed already"),
        (deferred_closed_twice, "is closed already"),
        (another_delta, "deferred=True"),
        (two_environments, "streams of one StreamExecutionEnvironment"),
        (variable_missing, "feeds back 0 streams, but there are 1 variable"),
        (criterion_missing_aggregator, "no aggregator 'sum'"),
    ],
)
def test_an_error_in_the_call(program: Callable[[Any], None], message: str) -> None:
    """The iteration would wait for ever for a superstep that does not end, or one that nobody sees."""
    with pytest.raises(ValueError, match=message):
        program(environment())


def grouped_by(env: Any, function: Any) -> None:
    iteration = iterate_delta(numbers(env), numbers(env), key=same)
    iteration.solution_set.co_group(iteration.workset, function, key=same)


def yielded(key: int, entry: Any, messages: Any) -> Any:
    yield entry


CONFIG = IterationConfig(3)


def bounded(variables: Any, config: Any = CONFIG, body: Any = None) -> None:
    Iterations.iterate_bounded_streams_until_termination(variables, [], config, body)


def local_aggregator() -> Any:
    class Local(SumAggregator):
        pass

    return Local()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda env: iterate([1, 2]), "a stream for iterate"),  # type: ignore[arg-type]
        (lambda env: iterate_delta([1], numbers(env), key=same), "a stream for iterate_delta"),  # type: ignore[arg-type]
        (lambda env: begun(env).replay([1]), "a stream for replay"),
        (lambda env: begun(env).enter([1]), "a stream for enter"),
        (lambda env: begun(env).close_with(numbers(env), outputs=numbers(env)), "outputs must be a list of streams"),
        (lambda env: with_broadcast_set(begun(env), [1], max), "a stream for with_broadcast_set"),  # type: ignore[arg-type]
        (lambda env: with_broadcast_set(begun(env), numbers(env), None), "a function of two lists"),  # type: ignore[arg-type]
        (
            lambda env: with_broadcast_set(begun(env), numbers(env), lambda records: records),  # type: ignore[arg-type,misc]
            r"called with 2 arguments \(records, broadcast_set\)",
        ),
        (lambda env: grouped_by(env, lambda entry, messages: entry), r"3 arguments \(key, entry, messages\)"),
        (lambda env: grouped_by(env, yielded), "contains `yield`"),
        (lambda env: grouped_by(env, 5), "a callable or a SolutionSetFunction"),
        (lambda env: bounded(numbers(env)), "the variable streams must be a list of streams"),
        (lambda env: bounded([numbers(env)], config=10), "config must be an IterationConfig"),
        (lambda env: bounded([numbers(env)], body=lambda variables, data: variables), "returns IterationBodyResult"),
        (lambda env: bounded([numbers(env)], body=lambda variables: variables), "the body is called with 2 arguments"),
        (
            lambda env: bounded([numbers(env)], body=lambda variables, data: IterationBodyResult(variables[0])),
            "feedback_variable_streams must be a list of streams",
        ),
        (lambda env: iterate(numbers(env), aggregators=[SumAggregator()]), "aggregators must be a dict"),  # type: ignore[arg-type]
        (lambda env: iterate(numbers(env), aggregators={"sum": local_aggregator()}), "top level of a module"),
        (lambda env: begun(env).close_with("numbers"), "a stream for close_with"),
        (lambda env: iterate(numbers(env), aggregators={"sum": sum}), "derived from Aggregator for 'sum'"),
        (
            lambda env: iterate(
                numbers(env), aggregators={"sum": SumAggregator()}, criteria={"sum": lambda number, value: True}
            ),
            "derived from ConvergenceCriterion for 'sum'",
        ),
    ],
)
def test_an_argument_of_a_wrong_type(call: Callable[[Any], Any], message: str) -> None:
    """It would fail in a subtask, at the end of a superstep."""
    with pytest.raises(TypeError, match=message):
        call(environment())


def unclosed(env: Any) -> Any:
    return begun(env).map(same)


def endless_data(env: Any) -> Any:
    iteration = begun(env)
    source = env.from_source(Endless(1, 9), WatermarkStrategy.no_watermarks(), "endless")
    return iteration.close_with(iteration.union(source).map(same))


def nested(env: Any) -> Any:
    outer = begun(env)
    inner = iterate(outer.map(same), 3)
    return outer.close_with(inner.close_with(inner.map(same)))


def own_result(env: Any) -> Any:
    iteration = begun(env)
    return iteration.close_with(iteration.result.map(same))


def feed_each_other(env: Any) -> Any:
    one, other = begun(env), begun(env)
    both = one.union(other).map(same)
    return one.close_with(both).union(other.close_with(both))


def without_supersteps(env: Any) -> Any:
    iteration = begun(env)
    loop = iteration.map(same).iterate()
    loop.close_with(loop.filter(lambda _: False))
    return iteration.close_with(loop.map(same))


def with_timestamps(env: Any) -> Any:
    iteration = begun(env)
    return iteration.close_with(
        iteration.assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps())
    )


def joined_whole(env: Any) -> Any:
    iteration = begun(env)
    return iteration.close_with(iteration.join(numbers(env)).where(same).equal_to(same).apply(max))


def grouped_whole(env: Any) -> Any:
    iteration = begun(env)
    return iteration.close_with(iteration.key_by(same).full_window_partition().reduce(max))


def sorted_whole(env: Any) -> Any:
    iteration = begun(env)
    return iteration.close_with(iteration.full_window_partition().sort_partition(same))


def numbered_whole(env: Any) -> Any:
    iteration = begun(env)
    return iteration.close_with(iteration.zip_with_index().map(sum))


def aggregated_termination(env: Any) -> Any:
    iteration = begun(env)
    changes = iteration.full_window_partition().reduce(max)
    return iteration.close_with(iteration.map(same), termination=changes)


def crossed_with_itself(env: Any) -> Any:
    iteration = begun(env)
    return iteration.close_with(iteration.cross(iteration).apply(max))


def listener_behind(env: Any) -> Any:
    iteration = begun(env)
    iteration.process(Listening()).print()
    return iteration.close_with(iteration.map(same))


def listener_for_records(env: Any) -> Any:
    iteration = begun(env)
    return iteration.close_with(iteration.flat_map(FlatListening()))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (unclosed, "is not closed"),
        (endless_data, "the source 'endless', which is unbounded"),
        (nested, "begins within another iteration"),
        (own_result, "use the stream that iterate\\(\\) has returned"),
        (feed_each_other, "feed each other"),
        (without_supersteps, "has no supersteps"),
        (with_timestamps, "assigns timestamps and watermarks in a structured iteration"),
        (joined_whole, "'Join' has its results when its whole input has ended"),
        (grouped_whole, "'Reduce Partition' has its results when"),
        (sorted_whole, "'Sort Partition' has its results when"),
        (numbered_whole, "'Zip With Index' has its results when"),
        (aggregated_termination, "'Reduce Partition' has its results when"),
        (crossed_with_itself, "'Cross' has its results when"),
        (listener_behind, "add the stream to the outputs"),
        (listener_for_records, "only called for records"),
    ],
)
def test_an_error_at_submission(program: Callable[[Any], Any], message: str) -> None:
    """The job would wait for ever, or end with the records of some supersteps."""
    env = environment()
    program(env).print()
    with pytest.raises(ProgramError, match=message):
        graph_of(env)


class Ends(Listening):
    """Emits the number of each superstep."""

    def process_element(self, value: Any, ctx: Any) -> None:
        pass

    def on_epoch_watermark_incremented(self, epoch_watermark: int, context: Any) -> Any:
        yield epoch_watermark


def test_a_listener_among_the_outputs_is_in_the_iteration() -> None:
    """A function that only writes results of each superstep would have to be fed back to be told of their ends."""

    def program(env: Any) -> Any:
        iteration = begun(env)
        ends = iteration.process(Ends()).set_parallelism(1)
        iteration.close_with(iteration.map(same), outputs=[ends])
        return ends

    assert results(program) == [0, 1, 2]


def test_an_output_may_wait_for_the_end_of_the_iteration() -> None:
    """Only what is fed back can't: an output has its results when the iteration has ended."""

    def program(env: Any) -> Any:
        iteration = begun(env)
        added = iteration.map(lambda number: number + 1)
        total = added.key_by(lambda number: 0).full_window_partition().reduce(lambda one, other: one + other)
        iteration.close_with(added, outputs=[total])
        return total

    assert results(program) == [9 + 12 + 15]


def test_a_step_may_cross_with_a_stream_from_outside() -> None:
    """Records of superstep 0 wait for the other stream: superstep 0 would end without them."""

    def program(env: Any) -> Any:
        iteration = begun(env)
        return iteration.close_with(iteration.cross(env.from_collection([10])).apply(lambda one, other: one + other))

    assert results(program) == [31, 32, 33]


class Mixed(ProcessFunction[Any, Any]):
    """Aggregates values of several types: each subtask another one."""

    def open(self, runtime_context: Any) -> None:
        self.context = runtime_context

    def process_element(self, value: Any, ctx: Any) -> Any:
        mine = value if self.context.get_index_of_this_subtask() else str(value)
        self.context.get_iteration_aggregator("most").aggregate(mine)
        yield value


def failed(program: Callable[[Any], Any]) -> str:
    """Run a program that has to fail; return the message."""
    env = environment(2)
    program(env).print()
    simulation = simulate(env, 1, CALM)
    assert simulation.run() is JobStatus.FAILED
    return str(simulation.error)


def test_results_that_an_aggregator_cannot_combine_are_named() -> None:
    """A trace of the engine's code would say neither which aggregator, nor that a copy's result is aggregated."""

    def program(env: Any) -> Any:
        iteration = iterate(numbers(env).rebalance(), 3, aggregators={"most": MaxAggregator()})
        return iteration.close_with(iteration.process(Mixed()))

    assert "the aggregator 'most' failed when the results of two subtasks were combined" in failed(program)


def test_an_entry_of_another_key_is_refused() -> None:
    """It would be in the solution set under the key of the messages: two entries of a key, or none."""

    def program(env: Any) -> Any:
        pairs = numbers(env).map(lambda number: (number, number))
        iteration = iterate_delta(pairs, pairs, 3, key=lambda pair: pair[0])
        swapped = iteration.solution_set.co_group(
            iteration.workset, lambda key, entry, messages: (key + 10, 0), key=lambda pair: pair[0]
        )
        return iteration.close_with(swapped, swapped)

    assert "by the key of iterate_delta that is an entry of 1" in failed(program)
