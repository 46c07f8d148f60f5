"""Failures, as they are reported from a worker to the user."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import pytest

from penstock.common.errors import (
    ConfigurationError,
    JobError,
    NotEnoughSlotsError,
    PenstockError,
    ProgramError,
    SourceError,
    TaskLostError,
    UserFunctionError,
    class_names,
)
from penstock.engine.plan.pickling import load_level
from penstock.hosts.spark.failures import describe, from_spark, revive, to_stage_failure
from penstock.hosts.spark.internals.version import check_version
from penstock.hosts.spark.internals.worker_streams import WorkerStreams


@pytest.mark.parametrize("error", [UserFunctionError("value 0"), SourceError("no file"), ConfigurationError("x")])
def test_an_error_of_ours_arrives_as_it_was(error: PenstockError) -> None:
    """The user could not catch the error that the documentation names."""
    arrived = revive(*describe(error))
    assert (type(arrived), str(arrived)) == (type(error), str(error))


def test_any_other_error_comes_with_its_traceback() -> None:
    """A bug of penstock could not be reported."""
    try:
        _ = {}["missing"]
    except KeyError as error:
        kind, text, _ = describe(error)
    assert kind == "JobError"
    assert "Traceback" in text
    assert "KeyError: 'missing'" in text
    assert type(revive("NoSuchError", "text")) is JobError
    assert type(revive("annotations", "text")) is JobError


@pytest.mark.parametrize("of", [UserFunctionError, ValueError])
def test_an_error_with_unencodable_characters_arrives(of: type[Exception]) -> None:
    """The user would read that a worker was lost: a name of a file that is not UTF-8 is enough."""
    error = of("no record in 'caf\udce9'")
    kind, text, raised = describe(error)
    assert r"no record in 'caf\udce9'" in text
    arrived = from_spark(to_stage_failure(error), show_stack=False)
    assert type(arrived) is type(revive(kind, text, raised)) and str(arrived) == text


MESSAGE = "operator 'm'\n  value {'ä': \"x\"} … > < = /\n"


def test_it_survives_the_text_of_a_spark_exception() -> None:
    """The user would get Spark's stack of eighty lines instead of the value that broke."""
    failure = to_stage_failure(UserFunctionError(MESSAGE, class_names(ValueError())))
    text = f"Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times\n  {failure}\n\tat org.apache.spark.X"
    arrived = from_spark(RuntimeError(text), show_stack=False)
    assert isinstance(arrived, UserFunctionError) and "ValueError" in arrived.raised
    assert str(arrived) == MESSAGE
    shown = str(from_spark(RuntimeError(text), show_stack=True))
    assert shown.startswith(MESSAGE)
    assert "org.apache.spark.X" in shown


@pytest.mark.parametrize(
    ("text", "kind", "cause"),
    [
        ("...\nModuleNotFoundError: No module named 'penstock'", ConfigurationError, "install the driver's version"),
        ("Python worker exited unexpectedly (crashed)", TaskLostError, "was lost"),
        ("ExecutorLostFailure (executor 1 exited)", TaskLostError, "was lost"),
        ("java.io.EOFException\n at ...", TaskLostError, "was lost"),
        (
            "Job aborted\n  SparkException: Connection to streaming shuffle writer 2 closed\n\tat x.y",
            TaskLostError,
            "was lost (killed, or out of memory); Spark: SparkException: Connection to streaming",
        ),
        ("NativeIoException: recvAddress(..) failed: Connection reset by peer", TaskLostError, "Connection reset"),
        ("Lost task 0.0 in stage 2.0 (TID 4): java.io.IOException: Broken pipe", TaskLostError, "was lost"),
        (
            "java.lang.NullPointerException\n\tat org.apache.spark.api.python.PythonWorkerFactory.createThroughDaemon",
            TaskLostError,
            "forks its Python workers has ended",
        ),
        ("[CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT] The minimum ...", NotEnoughSlotsError, "fewer free slots"),
        ("\n\n  Something else broke\n at ...", JobError, "Spark ended the job: Something else broke"),
        ("", JobError, "no reason given"),
        (
            "An error occurred while calling o7.start.\n: java.io.IOException: No space left on device\n\tat x.y",
            JobError,
            "is full: java.io.IOException: No space left on device\n  Free some space there",
        ),
        (
            "An error occurred while calling o7.start.\n: java.io.IOException: mkdir of file:/q/state failed\n\tat x.y",
            JobError,
            "cannot create a directory: java.io.IOException: mkdir of file:/q/state failed\n  Free some space there",
        ),
        (
            "An error occurred while calling o7.start.\n: java.lang.Error: a cause\n\tat x.y",
            JobError,
            "Spark ended the job: java.lang.Error: a cause",
        ),
        ("[Errno 28] No space left on device: '/tmp/penstock-query'", JobError, "device: '/tmp/penstock-query'"),
        (
            'java.io.IOException: Cannot run program "/opt/py": error=2',
            ConfigurationError,
            "an executor has no /opt/py",
        ),
        (
            "[PYTHON_EXCEPTION] It was thrown: Traceback (most recent call last):\n  File x\nKeyError: 'k'\n SQLSTATE",
            JobError,
            "It was thrown: KeyError: 'k'",
        ),
    ],
)
def test_texts_of_spark_are_translated(text: str, kind: type, cause: str) -> None:
    """The cause would be hidden in a Java stack."""
    error = from_spark(RuntimeError(text), show_stack=False)
    assert type(error) is kind
    assert cause in str(error)
    assert "penstock.errors.show-spark-stack: true" in str(error)


def refusal(check: Callable[[], object]) -> str:
    """The text of a worker's traceback, as Spark quotes it."""
    try:
        check()
    except ConfigurationError:
        return traceback.format_exc()
    raise AssertionError("nothing was refused")


@pytest.mark.parametrize(
    ("check", "sentence"),
    [
        (lambda: check_version("4.4.0", "this executor"), "this executor has PySpark 4.4.0, penstock needs 4.3"),
        (WorkerStreams(claimed=True).find, "the input and output of this PySpark worker are not where"),
    ],
    ids=["version", "streams"],
)
def test_an_error_before_the_slot_opens_is_reported_in_one_sentence(check, sentence) -> None:
    """The user would search eighty lines of Java for the reason."""
    text = f"Job aborted due to stage failure:\n{refusal(check)}\n\tat org.apache.spark.X"
    error = from_spark(RuntimeError(text), show_stack=False)
    assert type(error) is ConfigurationError
    first = str(error).splitlines()[0]
    assert first.startswith(sentence)
    assert "org.apache" not in first


def test_a_failed_unpickling_in_a_worker_is_reported_in_one_sentence() -> None:
    """The user would read "Spark ended the job: An exception was thrown from the Python worker", and nothing else."""
    try:
        load_level(b"no pickle")
    except ProgramError:
        text = f"Job aborted due to stage failure:\n{traceback.format_exc()}\n\tat org.apache.spark.X"
    error = from_spark(RuntimeError(text), show_stack=False)
    assert type(error) is ProgramError
    assert str(error).startswith("a worker can't unpickle a key selector, partitioner or split: UnpicklingError: ")


def test_an_error_of_the_user_is_not_followed_by_advice_on_spark() -> None:
    """The reader would look for the bug in Spark's stack."""
    shown = str(from_spark(RuntimeError(str(to_stage_failure(UserFunctionError("value 0")))), show_stack=False))
    assert shown == "value 0"


def test_the_stack_of_the_jvm_is_shown_where_pyspark_has_it() -> None:
    """`penstock.errors.show-spark-stack` would show the text twice and the stack never."""
    stack = "\tat org.apache.spark.Scheduler"
    of_pyspark = type("CapturedError", (RuntimeError,), {"_stackTrace": stack})
    assert stack in str(from_spark(of_pyspark("broke"), show_stack=True))
