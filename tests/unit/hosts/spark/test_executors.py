"""Executors are asked for as slots are wanted, and given back when they have been idle."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.hosts.spark.driver.executors import Executors


class Spark:
    """A pool of executors with two slots each, as Spark's master gives them."""

    slots_each = 2
    idle_s = 60.0

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.hears = True
        self.executors: dict[str, bool] = {}

    def idle(self) -> dict[str, bool]:
        return dict(self.executors)

    def ask(self, count: int) -> bool:
        self.asked.append(count)
        return self.hears

    def give_back(self, ids: Sequence[str]) -> None:
        for id in ids:
            del self.executors[id]


def test_as_many_are_asked_for_as_jobs_want_within_the_bounds() -> None:
    """Jobs would wait beside machines that are free; or one cluster take all machines there are."""
    spark = Spark()
    executors = Executors(spark, least=2, most=8)
    for wanted in (0, 1, 3, 4, 5, 100, 0):
        executors.ask(wanted)
    # Each number once: the master is not told what it knows.
    assert spark.asked == [1, 2, 3, 4, 1]


def test_a_master_that_does_not_hear_is_asked_again() -> None:
    """Jobs would wait for executors that nobody was asked for: the master was away at that moment."""
    spark = Spark()
    executors = Executors(spark, least=2, most=8)
    spark.hears = False
    executors.ask(4)
    executors.ask(4)
    spark.hears = True
    executors.ask(4)
    executors.ask(4)
    assert spark.asked == [2, 2, 2]


def test_those_that_were_idle_for_long_are_given_back() -> None:
    """A cluster would keep machines that it had needed once; or end one between two stages of a job that uses it."""
    spark, now_s = Spark(), 0.0
    executors = Executors(spark, least=2, most=8, clock=lambda: now_s)
    spark.executors = {"0": True, "1": False, "2": True, "3": True}
    executors.ask(4)
    assert executors.spare() == 0
    now_s = 40.0
    spark.executors["2"] = False
    assert executors.spare() == 0
    spark.executors["2"] = True
    now_s = 70.0
    assert executors.spare() == 4, "0 and 3: 2 had a task meanwhile"
    executors.give_back()
    assert list(spark.executors) == ["1", "2"]
    now_s = 1000.0
    assert executors.spare() == 0, "two are asked for"
    executors.ask(0)
    assert executors.spare() == 2
    executors.give_back()
    assert list(spark.executors) == ["1"]
