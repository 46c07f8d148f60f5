"""Threads that a job can't do without: what they raise is reported, and those that serve go on."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future

import pytest

from penstock.common.completable_future import CompletableFuture
from penstock.common.job_threads import start_loop, start_thread


def test_what_ends_a_thread_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """A job would wait for ever for a thread that has ended without a word."""
    failures: list[BaseException] = []

    def fails() -> None:
        raise ValueError("a broken disk")

    start_thread("penstock-test", fails, failures.append).join(60)
    assert [str(failure) for failure in failures] == ["a broken disk"]
    assert "the thread penstock-test ended with an error" in caplog.text and "a broken disk" in caplog.text


def test_a_thread_that_serves_goes_on_after_a_failure() -> None:
    """One order that can't be carried out would be the last one that is."""
    orders: queue.SimpleQueue[str] = queue.SimpleQueue()
    done: list[str] = []
    failures: list[BaseException] = []

    def turn() -> bool:
        order = orders.get()
        if order == "broken":
            raise ValueError(order)
        done.append(order)
        return order != "end"

    thread = start_loop("penstock-test", turn, failures.append)
    for order in ("a", "broken", "b", "end", "never"):
        orders.put(order)
    thread.join(60)
    assert not thread.is_alive() and thread.daemon
    assert done == ["a", "b", "end"] and [str(failure) for failure in failures] == ["broken"]


def test_a_result_is_waited_for_and_its_error_raised() -> None:
    """A program would go on without its savepoint, or take an error of the call for a timeout of its own."""
    future: Future[str] = Future()
    result = CompletableFuture(future)
    with pytest.raises(TimeoutError):
        result.result(timeout=0)
    assert not result.done() and result.exception() is None
    threading.Thread(target=future.set_result, args=("a path",)).start()
    assert result.result() == "a path" and result.done()
    failed: Future[str] = Future()
    failed.set_exception(TimeoutError("the store did not answer"))
    with pytest.raises(TimeoutError, match="the store did not answer"):
        CompletableFuture(failed).result(timeout=60)
    assert isinstance(CompletableFuture(failed).exception(), TimeoutError)


def test_a_cancelled_request_is_one() -> None:
    """A program would wait for a result that no one will give."""
    result = CompletableFuture(Future())
    assert result.cancel() and result.cancelled() and result.done()
    assert result.exception() is not None
