"""What users read when their function fails, and what their functions may ask."""

from __future__ import annotations

import pytest

from penstock.api.state.descriptors import ReducingStateDescriptor, ValueStateDescriptor
from penstock.common import Types
from penstock.common.configuration import Configuration
from penstock.common.errors import ProgramError, UserFunctionError
from penstock.engine.jobmaster.backends import store_settings
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.process import KeyedProcessOperator
from penstock.engine.runtime.operators.stateless import MapOperator
from penstock.engine.runtime.task.context import StreamingRuntimeContext, SubtaskInfo, shortened, user_traceback
from penstock.engine.runtime.task.metrics import OperatorCounters, OperatorMetricGroup
from penstock_examples.flights.disorder import disorder


def failure(rig, operator, *values) -> str:
    with pytest.raises(UserFunctionError) as caught:
        rig(operator, uid="airport-delay").process(*values)
    return str(caught.value)


def inner(value):
    return value["delay"] + 1


def outer(value):
    return inner(value)


def test_the_users_traceback_comes_first_and_alone(rig) -> None:
    """The line to look at would be the last of forty."""
    text = failure(rig, MapOperator("delay per airport", UserFunction(outer, "map")), {"origin": "JFK", "delay": None})
    lines = text.splitlines()
    assert lines[0] == "operator 'delay per airport' (uid airport-delay), subtask 2 of 4, in outer"
    assert lines[1] == "  value {'origin': 'JFK', 'delay': None}"
    assert lines[2] == "  Traceback (most recent call last):"
    assert "in outer" in lines[3]
    assert any("in inner" in line for line in lines)
    assert lines[-1] == "  TypeError: unsupported operand type(s) for +: 'NoneType' and 'int'"
    assert "stateless.py" not in text


def test_the_users_line_is_there_when_it_failed_inside_of_ours(rig) -> None:
    """A wrong argument to a state or timer would be reported without the line that passed it."""

    class Adds:
        def open(self, context):
            self.sum = context.get_reducing_state(
                ReducingStateDescriptor("sum", lambda a, b: a + b, Types.PICKLED_BYTE_ARRAY())
            )

        def process_element(self, value, ctx):
            self.sum.add(value)
            self.sum.add("text")

    text = failure(rig, KeyedProcessOperator("sum", lambda v: 0, UserFunction(Adds(), "process_element")), 1)
    assert 'self.sum.add("text")' in text
    assert text.index("in process_element") < text.index("states.py") < text.index("in <lambda>")
    assert "operators/process.py" not in text.replace("\\", "/")


def test_the_cause_of_an_error_is_kept(rig) -> None:
    """`raise MyError from error` would lose what really happened."""

    def fail(value):
        try:
            return 1 // value
        except ZeroDivisionError as error:
            raise RuntimeError("no rate") from error

    text = failure(rig, MapOperator("m", UserFunction(fail, "map")), 0)
    assert text.index("ZeroDivisionError") < text.index("direct cause") < text.index("RuntimeError: no rate")


def test_what_a_connector_of_ours_refuses_is_told_in_its_words(rig) -> None:
    """Kafka's "create the topic, or check its name" would be the last line below four frames of penstock."""
    operator = MapOperator("m", UserFunction(store_settings, "map"))
    text = failure(rig, operator, Configuration.from_dict({"state.backend.type": "rocks"}))
    assert "must be hashmap, rocksdb, postgres or redis" in text.splitlines()[-1] and "Traceback" not in text


def test_an_error_of_ours_alone_keeps_its_traceback() -> None:
    """A bug of penstock could not be reported."""
    try:
        ValueStateDescriptor(5, Types.LONG())
    except Exception as error:
        assert "Traceback" in user_traceback(error)


def test_values_are_shortened_in_the_middle() -> None:
    """A record of a megabyte would hide the message."""
    assert shortened("short") == "'short'"
    text = shortened("a" * 500 + "b" * 500)
    assert len(text) < 250
    assert text.startswith("'aaa")
    assert text.endswith("bbb'")
    assert " … " in text

    class Odd:
        def __repr__(self):
            raise ValueError

    assert shortened(Odd()) == "<Odd whose repr raises ValueError>"


def test_an_error_is_explained_once(rig) -> None:
    """The message would be wrapped in itself at each level it passes."""
    context = rig(MapOperator("m", UserFunction(str, "map"))).context
    raised = context.user_error(ValueError("x"), "map")
    assert context.user_error(raised, "process_element") is raised


def test_code_of_an_example_is_a_users_code(rig) -> None:
    """A user who breaks an example would get a traceback full of the engine's frames."""
    text = failure(rig, MapOperator("m", UserFunction(disorder, "map")), None)
    assert "penstock_examples" in text and "in disorder" in text
    assert "stateless.py" not in text


def test_what_a_function_may_ask_of_its_context() -> None:
    """PyFlink programs use these; a wrong number would split their work wrongly."""
    info = SubtaskInfo("job", 3, "Map -> Filter", 1, 4, 128, attempt=2, job_parameters={"mode": "fast"})
    context = StreamingRuntimeContext(info, OperatorMetricGroup(OperatorCounters("m")))
    assert context.get_task_name() == "Map -> Filter"
    assert context.get_task_name_with_subtasks() == "Map -> Filter (2/4)"
    assert context.get_number_of_parallel_subtasks() == 4
    assert context.get_max_number_of_parallel_subtasks() == 128
    assert context.get_index_of_this_subtask() == 1
    assert context.get_attempt_number() == 2
    assert context.get_job_parameter("mode", "slow") == "fast"
    assert context.get_job_parameter("other", "slow") == "slow"
    with pytest.raises(ProgramError, match="'Map -> Filter' asks for keyed state"):
        context.get_state(ValueStateDescriptor("x", Types.LONG()))
    assert context.get_metrics_group().counter("c").get_count() == 0
