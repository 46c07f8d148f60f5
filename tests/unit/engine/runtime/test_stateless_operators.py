"""map, filter, flat_map and process without a key: timestamps, pauses, and whose value an error names."""

from __future__ import annotations

import itertools

import pytest

from penstock.api.output_tag import OutputTag
from penstock.common.errors import ProgramError, UserFunctionError
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.process import ProcessOperator
from penstock.engine.runtime.operators.stateless import FilterOperator, FlatMapOperator, MapOperator

ODD = OutputTag("odd")


def mapping(function):
    return MapOperator("Map", UserFunction(function, "map"))


def flat_mapping(function):
    return FlatMapOperator("Flat Map", UserFunction(function, "flat_map"))


class Processing:
    def __init__(self, process_element) -> None:
        self.process = process_element

    def process_element(self, value, ctx):
        return self.process(value, ctx)


def processing(function):
    return ProcessOperator("Process", UserFunction(Processing(function), "process_element"))


def test_map_and_filter_keep_timestamps(rig) -> None:
    """Windows behind a map would get records at the wrong time."""
    assert rig(mapping(str)).process(1, 2, at=[10, 20]) == [("1", 10), ("2", 20)]
    assert rig(mapping(str)).process(1) == [("1", None)]
    even = FilterOperator("Filter", UserFunction(lambda value: value % 2 == 0, "filter"))
    assert rig(even).process(1, 2, 3, 4, at=[10, 20, 30, 40]) == [(2, 20), (4, 40)]
    assert rig(even).process(1, 2) == [(2, None)]


def test_chunks_are_not_changed_in_place(rig) -> None:
    """The other branch of a fork would see what this one made of the values."""
    values, times = [1, 2, 3], [1, 2, 3]
    for operator in (mapping(str), FilterOperator("F", UserFunction(bool, "filter")), flat_mapping(lambda v: [v, v])):
        rig(operator).operator.process(Rows(values, times))
    assert (values, times) == ([1, 2, 3], [1, 2, 3])


def test_flat_map_gives_each_result_the_timestamp_of_its_value(rig) -> None:
    """Words of a line would fall into the window of another line."""
    results = {"a": ["x", "y"], "b": None, "c": [], "d": iter("z")}
    operator = flat_mapping(results.get)
    assert rig(operator).process("a", "b", "c", "d", at=[1, 2, 3, 4]) == [("x", 1), ("y", 1), ("z", 4)]
    assert rig(flat_mapping({"a": ["x", "y"]}.get)).process("a") == [("x", None), ("y", None)]


@pytest.mark.parametrize("chunk_records", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("make", [flat_mapping, lambda f: processing(lambda value, ctx: f(value))])
def test_results_are_the_same_wherever_it_pauses(rig, make, chunk_records: int) -> None:
    """A function that explodes would lose results, or give some twice, when the task has to do something else."""

    def explode(value):
        return (f"{value}.{i}" for i in range(value)) if value % 2 else [f"{value}.{i}" for i in range(value)]

    values, times = [3, 0, 4, 1, 7, 2], [10, 20, 30, 40, 50, 60]
    expected = [(f"{v}.{i}", t) for v, t in zip(values, times, strict=True) for i in range(v)]
    impatient = rig(make(explode), patient=False, chunk_records=chunk_records)
    assert impatient.process(*values, at=times) == expected
    # A list is there already: it may be taken over whole.
    assert max(impatient.chunks) < chunk_records + max(values)
    assert impatient.pauses >= len(expected) // (chunk_records + max(values)) - 1
    untimed = rig(make(explode), patient=False, chunk_records=chunk_records)
    assert untimed.process(*values) == [(value, None) for value, _ in expected]
    refused = rig(make(explode), chunk_records=chunk_records)
    refused.refuses = True
    assert refused.process(*values, at=times) == expected


def test_a_function_without_end_can_be_left(rig) -> None:
    """A generator that never ends would block cancel and checkpoints for ever."""
    one = rig(flat_mapping(lambda value: itertools.count()), patient=False, chunk_records=10)
    assert one.operator.process(Rows([1], [5])) is False
    assert one.operator.paused
    for _ in range(3):
        assert one.operator.resume() is False
    assert [value for value, _ in one.log] == list(range(40))


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize(
    "make",
    [
        mapping,
        flat_mapping,
        lambda f: FilterOperator("Filter", UserFunction(f, "filter")),
        lambda f: processing(lambda value, ctx: f(value)),
        lambda f: flat_mapping(lambda value: (f(value) for _ in range(2))),
    ],
)
def test_an_error_names_the_value_it_came_from(rig, make, position: int) -> None:
    """The user would have to search all records for the one that failed."""

    def fail(value):
        return [1 // value] if make is not mapping else 1 // value

    values = [7, 8, 9]
    values[position] = 0
    with pytest.raises(UserFunctionError) as caught:
        rig(make(fail), uid="my-uid").process(*values, at=[100, 101, 102])
    text = str(caught.value)
    assert "subtask 2 of 4" in text
    assert "(uid my-uid)" in text
    assert f"value 0   timestamp {100 + position}" in text
    assert "ZeroDivisionError" in text
    assert "penstock/engine/runtime" not in text.replace("\\", "/")


def test_a_result_that_is_no_iterable_is_told(rig) -> None:
    """The usual slip, `return` for `yield`, would come as an error of penstock's."""
    for operator in (flat_mapping(lambda value: 5), processing(lambda value, ctx: 5)):
        with pytest.raises(UserFunctionError, match=r"value 'x'[\s\S]*'int' object is not iterable"):
            rig(operator).process("x")


def test_process_sees_the_time_of_its_record(rig) -> None:
    """Rules on event time would be checked against another record's."""
    operator = processing(
        lambda value, ctx: [
            (
                value,
                ctx.timestamp(),
                ctx.timer_service().current_watermark(),
                ctx.timer_service().current_processing_time(),
            )
        ]
    )
    one = rig(operator)
    one.until(5)
    one.now_ms = 77
    assert one.process("a", "b", at=[10, 20]) == [(("a", 10, 5, 77), 10), (("b", 20, 5, 77), 20)]
    assert one.process("c") == [(("c", None, 5, 77), None)]


def test_process_without_a_key_has_no_timers(rig) -> None:
    """The timer would be accepted and never fire."""
    operator = processing(lambda value, ctx: ctx.timer_service().register_event_time_timer(1))
    with pytest.raises(UserFunctionError, match="timers need a key: call key_by before process"):
        rig(operator).process("x")
    with pytest.raises(ProgramError, match="timers need a key"):
        operator._ctx.timer_service().delete_processing_time_timer(1)


def test_side_outputs_are_told_apart(rig) -> None:
    """Late or odd records would be in the main stream."""

    def split(value, ctx):
        yield (ODD, value) if value % 2 else value
        if value == 4:
            yield ("no tag", value)

    assert rig(processing(split)).process(1, 2, 3, 4, at=[1, 2, 3, 4]) == [
        ("side", "odd", 1, 1),
        ("side", "odd", 3, 3),
        (2, 2),
        (4, 4),
        (("no tag", 4), 4),
    ]


def test_map_and_flat_map_have_side_outputs(rig) -> None:
    """In PyFlink both are process functions: tags would be records of the main stream."""

    def tagged(value):
        return (ODD, value) if value % 2 else value

    both = [("side", "odd", 1, 1), (2, 2)]
    assert rig(mapping(tagged)).process(1, 2, at=[1, 2]) == both
    assert rig(flat_mapping(lambda value: [tagged(value)])).process(1, 2, at=[1, 2]) == both
    assert rig(flat_mapping(lambda value: (one for one in [tagged(value)]))).process(1, 2, at=[1, 2]) == both


@pytest.mark.parametrize("value", [(), (1,), (1, 2, 3), ((), 1), [], "text", None])
def test_tuples_that_have_no_tag_are_left_alone(rig, value) -> None:
    """Values that happen to be tuples would be taken apart, or fail."""
    assert rig(mapping(lambda _: value)).process(1) == [(value, None)]
    mixed = rig(mapping(lambda number: value if number else (ODD, number)))
    assert mixed.process(0, 1) == [("side", "odd", 0, None), (value, None)]


def test_functions_are_opened_and_closed(rig) -> None:
    """Connections would be used before they are opened, or never be closed."""
    calls = []

    class Function:
        def open(self, context):
            calls.append(("open", context.get_index_of_this_subtask(), context.get_number_of_parallel_subtasks()))

        def map(self, value):
            return value

        def close(self):
            calls.append("close")
            raise OSError("gone")

    one = rig(mapping(Function()))
    with pytest.raises(
        UserFunctionError, match=r"operator 'Map', subtask 2 of 4, in Function.close[\s\S]*OSError: gone"
    ):
        one.operator.close()
    assert calls == [("open", 1, 4), "close"]

    class Refuses(Function):
        def open(self, context):
            context.get_state(None)

    with pytest.raises(UserFunctionError, match=r"in Refuses.open[\s\S]*asks for keyed state"):
        rig(mapping(Refuses()))
