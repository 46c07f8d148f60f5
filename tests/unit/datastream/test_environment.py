"""What PyFlink's environment has and penstock's can't: refused with what to do."""

from __future__ import annotations

from collections.abc import Iterable

import pandas
import pytest

from penstock.common import Types, WatermarkStrategy
from penstock.common.errors import ConfigurationError
from penstock.connectors.base.collection import CollectionSource
from penstock.datastream import CheckpointingMode, StreamExecutionEnvironment
from penstock.datastream.state import MapStateDescriptor


def test_jars_have_no_effect_and_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A PyFlink program would not run, or without a word on why its connectors are others."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.add_jars("file:///connector.jar", "file:///other.jar")
    assert "no effect: file:///connector.jar, file:///other.jar" in caplog.text
    caplog.clear()
    env.add_classpaths("file:///connector.jar")
    assert "spark.jars" in caplog.text


@pytest.mark.parametrize(
    ("method", "argument", "advice"),
    [
        ("set_python_executable", "/usr/bin/python3", "spark.pyspark.python"),
        ("set_default_local_parallelism", 4, "set_parallelism"),
        ("enable_changelog_state_backend", True, "incremental"),
    ],
)
def test_settings_of_flinks_own_machinery_are_accepted(method, argument, advice, caplog):
    """A program for PyFlink would stop at a call that would not change its results."""
    env = StreamExecutionEnvironment.get_execution_environment()
    getattr(env, method)(argument)
    (logged,) = caplog.messages
    assert logged.startswith(method) and advice in logged
    assert not env.is_changelog_state_backend_enabled()


def test_second_names_of_checkpoint_settings():
    """A program for PyFlink would stop at a name, although the environment has the setting under another one."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1000).get_checkpoint_config().enable_unaligned_checkpoints()
    env.get_checkpoint_config().set_force_unaligned_checkpoints(True)
    assert env.is_unaligned_checkpoints_enabled() and env.is_force_unaligned_checkpoints()
    assert env.get_checkpointing_consistency_mode() is env.get_checkpointing_mode()
    assert env.is_chaining_of_operators_with_different_max_parallelism_enabled()


BRING_TOGETHER = {
    "union": lambda a, b: a.union(b),
    "connect": lambda a, b: a.connect(b),
    "connect keyed": lambda a, b: a.key_by(str).connect(b.key_by(str)),
    "connect broadcast": lambda a, b: a.connect(b.broadcast(MapStateDescriptor("m", Types.INT(), Types.INT()))),
    "join": lambda a, b: a.join(b),
    "co_group": lambda a, b: a.co_group(b),
    "interval_join": lambda a, b: a.key_by(str).interval_join(b.key_by(str)),
}


@pytest.mark.parametrize("method", BRING_TOGETHER)
def test_streams_of_two_environments_are_not_brought_together(method: str) -> None:
    """Operators would be mistaken for those of the other program: results would be wrong without a word."""
    first, second = (StreamExecutionEnvironment().from_collection([1]) for _ in range(2))
    with pytest.raises(ValueError, match="streams of one StreamExecutionEnvironment"):
        BRING_TOGETHER[method](first, second)


def test_an_interval_leaves_the_checkpointing_mode() -> None:
    """A job set to AT_LEAST_ONCE would align barriers after all."""
    env = StreamExecutionEnvironment()
    env.get_checkpoint_config().set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    env.enable_checkpointing(100)
    assert env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    env.enable_checkpointing(100, CheckpointingMode.EXACTLY_ONCE)
    assert env.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE


def test_what_is_asked_of_checkpoints_is_answered_as_by_flink() -> None:
    """A program that asks before it enables checkpoints would go another way than on Flink."""
    config = StreamExecutionEnvironment().get_checkpoint_config().enable_unaligned_checkpoints()
    assert config.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE, "there are none"
    assert not config.is_unaligned_checkpoints_enabled()
    config.set_checkpoint_interval(100)
    assert config.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    assert config.is_unaligned_checkpoints_enabled()
    config.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    assert not config.is_unaligned_checkpoints_enabled()


def test_the_parallelism_of_minus_one_is_the_default() -> None:
    """PyFlink's ExecutionConfig.PARALLELISM_DEFAULT would be refused by the environment."""
    env = StreamExecutionEnvironment().set_parallelism(3)
    assert env.set_parallelism(-1).get_parallelism() == 1


@pytest.mark.parametrize("through", ["from_source", "assign_timestamps_and_watermarks"])
def test_a_stream_keeps_its_strategy_as_it_was(through: str) -> None:
    """Two sources that share a strategy, each with an assigner of its own, would both have the later one."""
    env = StreamExecutionEnvironment()
    shared = WatermarkStrategy.for_monotonous_timestamps()
    for assigner in (_first, _second):
        strategy = shared.with_timestamp_assigner(assigner)
        if through == "from_source":
            stream = env.from_source(CollectionSource([1]), strategy, "source")
        else:
            stream = env.from_collection([1]).assign_timestamps_and_watermarks(strategy)
        stream.print()
    nodes = env._stream_graph().nodes.values()
    strategies = [node.operator.strategy for node in nodes if node.operator.strategy is not None]
    assert [strategy.timestamp_assigner for strategy in strategies if strategy.timestamp_assigner] == [_first, _second]


def _first(value, timestamp):
    return 1


def _second(value, timestamp):
    return 2


def test_a_collection_that_does_not_have_its_declared_rows_is_refused() -> None:
    """Fields would be missing in a worker, at the record that has too few."""
    type_info = Types.ROW_NAMED(["id", "info"], [Types.INT(), Types.STRING()])
    with pytest.raises(ValueError, match="got 1"):
        StreamExecutionEnvironment().from_collection([(1,)], type_info)


@pytest.mark.parametrize(
    ("collection", "emitted", "advice"),
    [
        ({"ann": 1}, "its keys, since it got a dict", "list(the_dict.items())"),
        (pandas.DataFrame({"user": ["ann"]}), "the names of its columns, since it got a DataFrame", "to_dict"),
        ("ann", "its characters, since it got a str", "[text]"),
        (b"ann", "its bytes, since it got a bytes", "[text]"),
    ],
)
def test_a_collection_whose_values_are_seldom_meant_has_a_warning(
    caplog: pytest.LogCaptureFixture, collection: Iterable[object], emitted: str, advice: str
) -> None:
    """The job would process the keys of a dict, or the names of columns, and not report it."""
    env = StreamExecutionEnvironment()
    for usual in ([{"ann": 1}], {1, 2}, (n for n in range(3))):
        env.from_collection(usual)
    assert not caplog.text
    env.from_collection(collection)
    assert f"from_collection emits {emitted}: pass " in caplog.text and advice in caplog.text


def test_project_needs_fields() -> None:
    """A stream of texts would give their characters; a wrong position would fail in a worker."""
    env = StreamExecutionEnvironment()
    tuples = env.from_collection([(1, "a")], Types.TUPLE([Types.INT(), Types.STRING()]))
    assert tuples.project(1).get_type() == Types.TUPLE([Types.STRING()])
    assert env.from_collection([(1, "a")]).project(1).get_type() == Types.PICKLED_BYTE_ARRAY()
    with pytest.raises(TypeError, match="project is for streams of tuples or rows"):
        env.from_collection(["ab"], Types.STRING()).project(0)
    with pytest.raises(ValueError, match="not one at position 2"):
        tuples.project(0, 2)


def test_settings_may_be_a_dict() -> None:
    """`env.configure({...})`, which everybody tries first, would be an AttributeError of a dict."""
    env = StreamExecutionEnvironment()
    env.configure({"execution.checkpointing.interval": "1s", "parallelism.default": 3})
    assert (env.get_checkpoint_config().get_checkpoint_interval(), env.get_parallelism()) == (1000, 3)
    with pytest.raises(ConfigurationError, match="Did you mean"):
        env.configure({"paralellism.default": 3})
