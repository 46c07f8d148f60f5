"""Which outcomes of savepoints are kept for the clients that ask for them."""

from __future__ import annotations

from concurrent.futures import Future

from penstock.service.rest.savepoint_triggers import SavepointTriggers


def test_what_is_not_there_yet_is_kept_and_of_the_others_the_newest() -> None:
    """A client whose savepoint waits for a hundred others would read that there is none of its trigger id."""
    triggers = SavepointTriggers()
    futures: list[Future[str]] = [Future() for _ in range(150)]
    for number, future in enumerate(futures):
        triggers.add(future, str(number))
    assert triggers.find("0") is futures[0]
    for future in futures[:-1]:
        future.set_result("/savepoint")
    triggers.add(Future(), "new")
    assert (triggers.find("0"), triggers.find("48")) == (None, None)
    assert triggers.find("49") is futures[49] and triggers.find("149") is futures[149] and triggers.find("new")


def test_one_that_has_taken_long_is_not_the_oldest() -> None:
    """Its client would be told that there is none, ask again with its id, and stop the job a second time."""
    triggers = SavepointTriggers()
    slow: Future[str] = Future()
    triggers.add(slow, "slow")
    for number in range(149):
        done: Future[str] = Future()
        triggers.add(done, str(number))
        done.set_result("/savepoint")
    slow.set_result("/savepoint")
    triggers.add(Future(), "new")
    assert triggers.find("slow") is slow


def test_what_its_client_knows_goes_first() -> None:
    """The outcome that nobody has read yet is the one that is asked for next."""
    triggers = SavepointTriggers()
    for number in range(101):
        done: Future[str] = Future()
        triggers.add(done, str(number))
        if number == 50:
            triggers.was_read("7")
        done.set_result("/savepoint")
    assert triggers.find("7") is None and triggers.find("0") is not None
    assert len(triggers.ended()) == 100
