"""What goes out of an error's text."""

from __future__ import annotations

import logging
import traceback
from typing import Any

import pytest
from tests.unit.engine.jobmaster.played_job import Job

from penstock.common.errors.user_traceback import raised_line
from penstock.common.text.secrets import TEXT_LENGTH_MAX, redacted, redacted_error
from penstock.engine.jobmaster.execution_recorder import FailureHistory
from penstock.engine.jobmaster.notices import RestartScheduled
from penstock.hosts.spark.driver.job_log_lines import JobLogLines

SECRET = "S3cr3t" * 6
LONG_SECRET = "S3cr3t" * 500


@pytest.mark.parametrize(
    "line",
    [
        f"postgres://user:{SECRET}@host/database\n",
        f"s3://key:{SECRET}/{SECRET}@bucket ",
        f"postgres://user:{LONG_SECRET}@host/database\n",
        f"password={SECRET} ",
        f"{{'password': '{SECRET} {SECRET}'}} ",
        f"Authorization: Bearer {SECRET}\n",
    ],
)
def test_a_text_that_is_cut_shows_no_part_of_a_secret(line: str) -> None:
    """Half a password, and where it belongs to, is most of the work of guessing it."""
    for before in range(0, len(line), 7 if len(line) < 500 else 49):
        text = redacted("x" * before + " " + line * 2_000)
        assert "S3cr3t" not in text and len(text) < TEXT_LENGTH_MAX + 100 and "more characters" in text


def test_what_was_raised_last_is_told_behind_whatever_came_before() -> None:
    """A database's error quotes the statement, of megabytes, and what made of it the user's error stands behind."""
    try:
        try:
            raise ValueError("v" * 100_000)
        except ValueError as error:
            raise KeyError("the real one") from error
    except KeyError as error:
        text = redacted("".join(traceback.format_exception(error)))
    assert len(text) < TEXT_LENGTH_MAX + 100 and "more characters" in text
    assert raised_line(text) == "KeyError: 'the real one'"


def test_a_short_text_stays() -> None:
    """A cut in the middle of an error of three lines would be one nobody asked for."""
    assert redacted("a" * TEXT_LENGTH_MAX) == "a" * TEXT_LENGTH_MAX


class _MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_an_error_that_can_not_say_what_it_is_does_not_become_another_one() -> None:
    """The job would fail by the line that was to tell why it restarts."""
    assert redacted_error(_MuteError()) == "_MuteError (its text can't be formatted: RuntimeError)"


def errors() -> list[Exception]:
    return [OSError(f"postgres://user:{SECRET}@host is away"), OSError("v" * 1_000_000), _MuteError()]


@pytest.mark.parametrize("error", errors(), ids=["secret", "long", "mute"])
def test_an_error_of_a_library_in_the_driver_is_told_as_one_of_a_task(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """A committer's, or an enumerator's: 29 MB for each attempt, in the log and for each client that looks."""
    job = Job()
    history = FailureHistory(job.master)
    history.add(error, 1_000)
    lines = JobLogLines(logging.getLogger("penstock.job"), "job 'a'", [])
    notice: Any = RestartScheduled(error=error, delay_ms=1, restart=1, now_ms=1_000, waits_for_slots=False)
    with caplog.at_level(logging.DEBUG):
        lines.log_effects([notice])
    for text in (history.newest[0].text, caplog.text):
        assert "S3cr3t" not in text and 0 < len(text) < TEXT_LENGTH_MAX + 500
