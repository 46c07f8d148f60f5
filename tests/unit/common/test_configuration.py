import copy
from datetime import timedelta
from typing import Any

import pytest

from penstock.common import ConfigOptions, Configuration, Duration, ExecutionConfig, RestartStrategies, Time
from penstock.common.config_options import ConfigOption
from penstock.common.config_values import IntegerType, parse_duration, parse_list, parse_memory_size
from penstock.common.configuration import option_checks, options, restart_options
from penstock.common.configuration.choices import RuntimeExecutionMode
from penstock.common.configuration.options import checkpoint_interval_ms
from penstock.common.errors import ConfigurationError
from penstock.engine.jobmaster.restarts import NoRestart, restart_strategy
from penstock.engine.jobmaster.settings import JobSettings


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("5 s", 5000),
        ("10 min", 600_000),
        ("200 ms", 200),
        ("1 d", 86_400_000),
        ("2h", 7_200_000),
        (" 7 ", 7),
        ("3 Seconds", 3000),
        ("1500 us", 1),
        ("999 ns", 0),
    ],
)
def test_durations_are_read_as_flink_writes_them(text: str, ms: int) -> None:
    """A checkpoint interval copied from a Flink configuration would mean something else."""
    assert parse_duration(text) == ms


@pytest.mark.parametrize("text", ["", "s", "5 fortnights", "-5 s", "1.5 s", "5 s 3 ms", "9223372036854775807 s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """A typing mistake in a duration would become some number of milliseconds."""
    with pytest.raises(ValueError, match=r"duration|unit|64 bits"):
        parse_duration(text)


def test_sizes_count_in_units_of_1024() -> None:
    """Memory limits would be off by five per cent."""
    assert (parse_memory_size("64 mb"), parse_memory_size("1kb"), parse_memory_size("12")) == (64 * 2**20, 1024, 12)
    with pytest.raises(ValueError, match="no known unit of size"):
        parse_memory_size("3 s")


def test_lists_in_both_spellings() -> None:
    """Paths given as YAML would be one path with brackets."""
    assert parse_list("a;b") == parse_list("[a, 'b']") == parse_list("- a\n- b") == ["a", "b"]
    assert Configuration.parse_list_value("") == Configuration.parse_list_value(None) == []
    assert Configuration.parse_list_value("[a, b]") == Configuration.parse_list_value("a;b") == ["a", "b"]


@pytest.mark.parametrize("text", ['{"a": null}', '{"a": {"b": null}}', '{"a": [1, null]}'])
def test_a_null_in_a_map_names_the_setting(text: str) -> None:
    """The error would not say which of fifty settings is wrong."""
    configuration = Configuration().set_string("pipeline.global-job-parameters", text)
    with pytest.raises(ConfigurationError, match=r"pipeline\.global-job-parameters.*null.*got None"):
        configuration.get(options.GLOBAL_JOB_PARAMETERS)


@pytest.mark.parametrize(
    "text", ["a:1,b:2", "{a: 1, b: 2}", "{'a': 1, b: \"2\"}", '{"a": "1", "b": 2}', " a: 1 , b :2"]
)
def test_maps_in_all_spellings(text: str) -> None:
    """Job parameters written in YAML would have braces in their names."""
    assert Configuration().set(options.GLOBAL_JOB_PARAMETERS, text).get(options.GLOBAL_JOB_PARAMETERS) == {
        "a": "1",
        "b": "2",
    }


def test_what_is_shown_of_a_configuration_has_no_secrets() -> None:
    """A password would be in every log that prints the settings."""
    configuration = Configuration.from_dict({"a": 1, "spark.my.Password": "x", "s3.secret-key": "y"})
    assert str(configuration) == "{a=1, spark.my.Password=******, s3.secret-key=******}"
    assert "'x'" not in repr(configuration)


def test_a_default_of_a_float_is_a_float() -> None:
    """`get_float("x", 1)` is a float in PyFlink."""
    assert isinstance(Configuration().get_float("x", 1), float) and Configuration().get_float("x", None) is None


@pytest.mark.parametrize("value", ["5 s", 5000, timedelta(seconds=5), Duration.of_seconds(5), Time.seconds(5)])
def test_duration_options_take_all_lengths_of_time(value: Any) -> None:
    """The same interval, set in two ways, would be two intervals."""
    configuration = Configuration().set(options.CHECKPOINT_INTERVAL, value)
    assert configuration.get(options.CHECKPOINT_INTERVAL) == 5000


def test_default_then_fallback_then_own_key() -> None:
    """An older spelling in a file would be ignored, or override the newer one."""
    configuration = Configuration()
    assert configuration.get(options.BUFFER_TIMEOUT) == 5 and not configuration.contains(options.BUFFER_TIMEOUT)
    configuration.set_string("execution.buffer-timeout", "7 ms")
    assert configuration.get(options.BUFFER_TIMEOUT) == 7 and configuration.contains(options.BUFFER_TIMEOUT)
    configuration.set(options.BUFFER_TIMEOUT, 9)
    assert configuration.get(options.BUFFER_TIMEOUT) == 9
    assert configuration.set(options.BUFFER_TIMEOUT, None).get(options.BUFFER_TIMEOUT) == 7


def test_wrong_values_name_their_key() -> None:
    """A wrong line in a file would be hard to find."""
    with pytest.raises(ConfigurationError, match=r"'parallelism.default' must be a whole number"):
        Configuration.from_dict({"parallelism.default": "two"}).get(options.PARALLELISM)
    with pytest.raises(ConfigurationError, match="one of STREAMING, BATCH, AUTOMATIC: got 'FAST'"):
        Configuration().set(options.RUNTIME_MODE, "FAST")
    with pytest.raises(ConfigurationError, match=r"heartbeat\.timeout"):
        option_checks.check_values(Configuration.from_dict({"heartbeat.timeout": "soon"}))
    assert Configuration().set(options.RUNTIME_MODE, "batch").get(options.RUNTIME_MODE) is RuntimeExecutionMode.BATCH


def test_every_value_comes_back_as_it_was_set() -> None:
    """A setting would change when it is sent to a worker as text."""
    configuration = (
        Configuration()
        .set_integer("i", 2**40)
        .set_boolean("b", False)
        .set_float("f", 0.1)
        .set_bytearray("x", bytearray(b"\x00\xff"))
        .set_string("s", " a ")
    )
    there = Configuration.from_dict(configuration.to_dict())
    assert there == configuration and hash(there) == hash(configuration)
    assert (there.get_integer("i", 0), there.get_boolean("b", True), there.get_float("f", 0.0)) == (2**40, False, 0.1)
    assert there.get_bytearray("x", bytearray()) == b"\x00\xff" and there.get_string("s", "") == " a "
    assert there.get_string("none", None) is None and there.get_integer("none", 3) == 3


def test_copies_and_prefixes() -> None:
    """Changing a copy would change the environment's configuration."""
    base = Configuration.from_dict({"a": 1})
    for other in (Configuration(base), copy.copy(base), copy.deepcopy(base)):
        other.set_string("a", "2")
    assert base.to_dict() == {"a": "1"}
    assert Configuration().add_all(base, "p.").key_set() == {"p.a"}
    assert base.remove_config("a") and not base.remove_config("a") and not base.contains_key("a")


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("parallelism.defualt", "parallelism.default"),
        ("Parallelism.Default", "parallelism.default"),
        ("execution.checkpointing.min_pause", "execution.checkpointing.min-pause"),
        ("heartbeat.timout", "heartbeat.timeout"),
        ("paralellism.defualt", "parallelism.default"),
        ("execution.checkpoiting.intreval", "execution.checkpointing.interval"),
    ],
)
def test_near_misses_are_errors_with_the_right_key(key: str, meant: str) -> None:
    """A misspelt setting would have no effect, without an error."""
    with pytest.raises(ConfigurationError, match=f"Did you mean '{meant}'"):
        option_checks.check_keys(Configuration.from_dict({key: "1"}))


def test_other_keys_pass() -> None:
    """A Flink configuration would be rejected because of options that penstock does not use."""
    known = {option.key: "1" for option in options.ALL_OPTIONS}
    passing = Configuration.from_dict({**known, "spark.master": "local[2]", "state.backend": "x"})
    assert option_checks.check_keys(passing) == []
    flinks = [
        "execution.checkpointing.cleaner.parallel-mode",
        "execution.checkpointing.interval-during-backlog",
        "execution.checkpointing.write-buffer-size",
        "execution.savepoint-restore-mode",
        "job.autoscaler.excluded.periods",
        "job.autoscaler.history.max.count",
        "job.autoscaler.memory.tuning.enabled",
        "job.autoscaler.observed-scalability.enabled",
        "job.autoscaler.quota.cpu",
        "jobmanager.adaptive-scheduler.scaling-interval.max",
        "metrics.latency.granularity",
        "metrics.latency.history-size",
        "pipeline.jars",
        "restart-strategy.failure-rate.attempts-before-reset",
        "slot.idle.timeout",
        "state.backend.incremental",
        "state.backend.rocksdb.log.level",
        "task.cancellation.timers.timeout",
        "web.port",
    ]
    assert option_checks.check_keys(Configuration.from_dict(dict.fromkeys(flinks, "1"))) == flinks


def test_no_two_options_are_near_misses_of_each_other() -> None:
    """A correct key could be rejected as a misspelling of another one."""
    for option in options.ALL_OPTIONS:
        others = [other.key for other in options.ALL_OPTIONS if other is not option]
        near = option_checks.closest(option.key, others)
        assert near == []


@pytest.mark.parametrize(
    ("former", "option"),
    [
        ("execution.checkpointing.alignment-timeout", options.ALIGNED_CHECKPOINT_TIMEOUT),
        ("task.cancellation-interval", options.TASK_CANCELLATION_INTERVAL),
    ],
)
def test_former_keys_of_flink_are_still_read(former: str, option: ConfigOption[int]) -> None:
    """A configuration that Flink 2.3 reads was refused as misspelt, or had no effect."""
    configuration = Configuration.from_dict({former: "7 s"})
    assert option_checks.check_keys(configuration) == []
    assert configuration.get(option) == 7_000


def test_users_build_their_own_options() -> None:
    """Programs with their own options, as PyFlink allows, would not run."""
    depth = ConfigOptions.key("job.depth").int_type().default_value(3).with_description("how deep")
    name = ConfigOptions.key("job.name").string_type().no_default_value()
    limit = ConfigOptions.key("job.limit").memory_type().default_value(0)
    assert Configuration().get(depth) == 3 and Configuration().get(name) is None
    assert Configuration().set(limit, "2 kb").get(limit) == 2048
    with pytest.raises(ValueError):
        ConfigOptions.key("")


def test_execution_config_is_a_view() -> None:
    """Settings made with env.get_config() would not reach the job."""
    configuration = Configuration()
    config = ExecutionConfig(configuration)
    config.set_parallelism(4).set_max_parallelism(256).set_auto_watermark_interval(timedelta(seconds=1))
    config.set_global_job_parameters({"a": "x:y,z"}).disable_auto_generated_uids()
    assert configuration.to_dict()["parallelism.default"] == "4" and config.get_max_parallelism() == 256
    assert config.get_auto_watermark_interval() == 1000 and config.get_global_job_parameters() == {"a": "x:y,z"}
    assert not config.has_auto_generated_uids_enabled() and not config.has_generic_types_disabled()
    assert config.set_parallelism(-1).get_parallelism() == 1 and ExecutionConfig().get_max_parallelism() == -1
    for wrong in (0, -3, 40_000):
        with pytest.raises(ValueError):
            config.set_max_parallelism(wrong)
    ExecutionConfig().get_global_job_parameters()["leak"] = "x"
    assert ExecutionConfig().get_global_job_parameters() == {}


def test_restart_strategies_write_their_options() -> None:
    """The strategy set in the program would not be used."""
    configuration = Configuration()
    RestartStrategies.fixed_delay_restart(3, timedelta(seconds=2)).apply_to(configuration)
    assert configuration.get(restart_options.RESTART_STRATEGY) == "fixed-delay"
    assert configuration.get(restart_options.FIXED_DELAY_ATTEMPTS) == 3
    assert configuration.get(restart_options.FIXED_DELAY) == 2000
    RestartStrategies.failure_rate_restart(2, 60_000, 10).apply_to(configuration)
    assert configuration.get(restart_options.FAILURE_RATE_INTERVAL) == 60_000
    with pytest.raises(ValueError, match="0 or more"):
        RestartStrategies.fixed_delay_restart(-1, 0)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("parallelism.default", "0"),
        ("parallelism.default", "-5"),
        ("pipeline.max-parallelism", "0"),
        ("execution.checkpointing.num-retained", "0"),
        ("state.checkpoints.num-retained", "-1"),
        ("execution.checkpointing.max-concurrent-checkpoints", "0"),
        ("execution.checkpointing.tolerable-failed-checkpoints", "-1"),
        ("execution.checkpointing.timeout", "0"),
        ("heartbeat.interval", "0 ms"),
        ("heartbeat.timeout", "0 s"),
        ("restart-strategy.fixed-delay.attempts", "-1"),
        ("restart-strategy.exponential-delay.initial-backoff", "0"),
        ("restart-strategy.exponential-delay.backoff-multiplier", "0.5"),
        ("restart-strategy.exponential-delay.backoff-multiplier", "nan"),
    ],
)
def test_a_number_below_its_least_is_refused_before_the_job_starts(key: str, value: str) -> None:
    """No checkpoint would ever begin, or each be deleted as it completes, or a worker would divide by zero."""
    with pytest.raises(ConfigurationError, match=rf"'{key}' must be .* or more: '{value}'"):
        option_checks.check_values(Configuration.from_dict({key: value}))


def test_no_whole_number_is_without_a_least_value() -> None:
    """The next option would be accepted with a value that has no meaning."""
    below = Configuration.from_dict({o.key: "-1" for o in options.ALL_OPTIONS if isinstance(o.value_type, IntegerType)})
    for key in below.key_set():
        with pytest.raises(ConfigurationError, match="or more"):
            option_checks.check_values(Configuration.from_dict({key: "-1"}))


@pytest.mark.parametrize(("interval", "expected_ms"), [(None, None), ("0", None), ("0 ms", None), ("5 s", 5_000)])
def test_an_interval_of_nothing_is_none(interval: str | None, expected_ms: int | None) -> None:
    """A job whose checkpoints are switched off would restart after a failure, from nothing, and double its output."""
    configuration = Configuration.from_dict({} if interval is None else {"execution.checkpointing.interval": interval})
    assert checkpoint_interval_ms(configuration) == expected_ms
    assert JobSettings.of(configuration).checkpoints.interval_ms == expected_ms
    restarts = restart_strategy(configuration, lambda: 0.5)
    assert isinstance(restarts, NoRestart) == (expected_ms is None)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("restart-strategy.exponential-delay.jitter-factor", "1.5", "a number from 0 to 1: '1.5' is more than 1"),
        ("restart-strategy.exponential-delay.jitter-factor", "-0.1", "a number from 0 to 1: '-0.1' is not 0 or more"),
        ("task.checkpoint.alignment.max-memory", "9999999999 gb", "a size: '9999999999 gb' does not fit into 64 bits"),
        ("parallelism.default", "two", "a whole number of 1 or more: 'two' is not a whole number"),
        ("restart-strategy.exponential-delay.jitter-factor", "some", "a number from 0 to 1: 'some' is not a number"),
    ],
)
def test_what_a_value_may_be_is_said(key: str, value: str, message: str) -> None:
    """The user would read of Python's literals, or a job would fail when it restarts."""
    with pytest.raises(ConfigurationError, match=f"'{key}' must be {message}"):
        option_checks.check_values(Configuration.from_dict({key: value}))
