"""What a job reads and writes is looked at where the job is controlled, and where it is declared it is not."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.api.sink import Sink, SinkContext, SinkWriter
from penstock.common import Configuration, SimpleStringSchema, WatermarkStrategy
from penstock.common.errors import PenstockError, ProgramError, SourceError
from penstock.common.serialization import Encoder
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from penstock.datastream.connectors.kafka import KafkaSource
from penstock.service.client.executor import Submission
from penstock.service.client.plan_executor import PlanExecutor
from penstock.service.client.submission import submit

NONE = WatermarkStrategy.no_watermarks()


def planned(declare: Callable[[StreamExecutionEnvironment], Any]) -> Submission:
    """A job as `penstock explain` plans it, which finds nothing wrong with it."""
    executor = PlanExecutor()
    env = StreamExecutionEnvironment(executor=executor)
    declare(env)
    env.execute("lines")
    assert executor.faults == []
    return Submission(executor.graphs[0], {}, Configuration(), None)


def lines(env: StreamExecutionEnvironment, path: Path) -> DataStream[str]:
    """What a file has, which may not be there."""
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), path).build()
    return env.from_source(source, NONE, "lines")


def test_a_program_is_explained_without_what_it_reads_and_writes(tmp_path: Path) -> None:
    """Who looks at a plan, or submits to a cluster, may not reach the servers; and to look must not make a table."""

    def declare(env: StreamExecutionEnvironment) -> None:
        source = (
            KafkaSource.builder()
            .set_bootstrap_servers("127.0.0.1:9")
            .set_topics("flights")
            .set_value_only_deserializer(SimpleStringSchema())
            .build()
        )
        stream = env.from_source(source, NONE, "flights").union(lines(env, tmp_path / "nowhere.txt"))
        stream.sink_to(FileSink.for_row_format("gs2://nowhere/out", Encoder.simple_string_encoder()).build())

    submission = planned(declare)
    with pytest.raises(PenstockError, match=r"operator .(flights|lines).: "):
        submit(submission)


class Refuses(Sink[Any]):
    """A user's own."""

    def __init__(self, error: BaseException) -> None:
        self.error, self.asked = error, 0

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        raise NotImplementedError

    def validate(self) -> None:
        self.asked += 1
        raise self.error


class TwoWordsError(PenstockError):
    """With a text of its own making."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)


class NoTextError(PenstockError):
    """Without a text."""

    def __str__(self) -> str:
        return 5  # type: ignore[return-value]


class OddError(BaseException):
    """What libraries raise to get through `except Exception`."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("bad setting"), "operator 'out': Traceback .*in validate.*ValueError: bad setting"),
        (SourceError("away"), "operator 'out': away$"),
        (TwoWordsError(5, "is bad"), "operator 'out': .*5, 'is bad'"),
        (NoTextError("bad"), "operator 'out': .*NoTextError: <exception str"),
        (OddError("bad"), "operator 'out': .*OddError: bad"),
        (SystemExit(3), "operator 'out': .*SystemExit: 3"),
        (SourceError("out: is a file"), "operator 'out': is a file$"),
        (ValueError("a" * 100_000), r"operator 'out': .*aaa … \([\d,]+ more characters\)$"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_sink_of_a_users_raises_is_told_with_its_operator(error: BaseException, said: str) -> None:
    """From a cluster came a traceback of penstock's own; an error that is raised again had the name twice."""
    sink = Refuses(error)
    submission = planned(lambda env: env.from_collection([1]).sink_to(sink).name("out"))
    for _ in range(2):
        with pytest.raises(PenstockError, match=re.compile(f"^{said}", re.DOTALL)) as raised:
            submit(submission)
        assert str(raised.value).count("operator 'out'") == 1


def test_an_interrupt_while_a_sink_is_asked_ends_the_program_and_says_where() -> None:
    """Who has pressed Ctrl-C as nothing went on is to learn what held it up."""
    submission = planned(lambda env: env.from_collection([1]).sink_to(Refuses(KeyboardInterrupt())).name("out"))
    with pytest.raises(KeyboardInterrupt) as raised:
        submit(submission)
    assert raised.value.__notes__ == ["while operator 'out' was checked"]


class Forks(Refuses):
    """A user's own, with a library that forks."""

    def validate(self) -> None:
        child = os.fork()
        if child:
            _, status = os.waitpid(child, 0)
            raise ValueError(f"the child has ended with {os.waitstatus_to_exitcode(status)}")


def test_a_fork_of_what_is_asked_runs_no_job(tmp_path: Path) -> None:
    """It would go on as a second process of the job: two that write."""
    submission = planned(lambda env: env.from_collection([1]).sink_to(Forks(ValueError())))
    submission = dataclasses.replace(submission, on_checked=(tmp_path / "checked").touch)
    with pytest.raises(ProgramError, match="the child has ended with 1"):
        submit(submission)
    assert not (tmp_path / "checked").exists()


def test_what_was_asked_is_not_asked_again() -> None:
    """A job that is taken over while its server is away would fail; one that was not asked has no table."""
    asked: list[bool] = []
    sink = Refuses(SourceError("away"))
    submission = planned(lambda env: env.from_collection([1]).sink_to(sink))
    submission = dataclasses.replace(submission, resumes="0" * 32, on_checked=lambda: asked.append(True))
    with pytest.raises(SourceError):
        submit(submission)
    assert (sink.asked, asked) == (1, [])
    broken = Configuration.from_dict({"execution.checkpointing.dir": "gs2://nowhere"})
    with pytest.raises(PenstockError, match="gs2"):
        submit(dataclasses.replace(submission, is_checked=True, configuration=broken))
    assert (sink.asked, asked) == (1, [])


def test_a_source_that_is_not_there_is_named_before_anything_runs(tmp_path: Path) -> None:
    """A job would start Spark and wait for its slots, to fail then."""
    submission = planned(lambda env: lines(env, tmp_path / "nowhere.txt").print())
    with pytest.raises(SourceError, match=r"^operator 'lines': .*nowhere\.txt"):
        submit(submission)


def test_a_sink_that_can_not_write_is_named_before_anything_runs(tmp_path: Path) -> None:
    """A job would read, and fail as it writes."""
    (tmp_path / "in.txt").write_text("a\n")
    sink = FileSink.for_row_format(str(tmp_path / "in.txt"), Encoder.simple_string_encoder()).build()
    submission = planned(lambda env: lines(env, tmp_path / "in.txt").sink_to(sink).name("out"))
    with pytest.raises(
        ProgramError, match=r"^operator 'out': FileSink: expected a directory .* got the file .*in\.txt"
    ):
        submit(submission)
