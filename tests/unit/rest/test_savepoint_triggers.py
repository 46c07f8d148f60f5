"""Which outcomes of savepoints are kept for the clients that ask for them."""

from __future__ import annotations

from concurrent.futures import Future

from penstock.rest.savepoint_triggers import SavepointTriggers


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
