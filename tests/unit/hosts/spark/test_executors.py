"""Executors are requested when jobs need slots, and released when they have been idle."""

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

    def request_total(self, count: int) -> bool:
        self.asked.append(count)
        return self.hears

    def release(self, ids: Sequence[str]) -> None:
        for id in ids:
            del self.executors[id]


def test_as_many_executors_are_requested_as_jobs_need_within_the_limits() -> None:
    """Jobs would wait although machines are free, or one cluster would take all machines."""
    spark = Spark()
    executors = Executors(spark, slots_min=2, slots_max=8)
    for wanted in (0, 1, 3, 4, 5, 100, 0):
        executors.request(wanted)
    # Each number once: the master is not told what it knows.
    assert spark.asked == [1, 2, 3, 4, 1]


def test_a_request_to_an_unreachable_master_is_repeated() -> None:
    """Jobs would wait forever for executors, because the master was unreachable at the first request."""
    spark = Spark()
    executors = Executors(spark, slots_min=2, slots_max=8)
    spark.hears = False
    executors.request(4)
    executors.request(4)
    spark.hears = True
    executors.request(4)
    executors.request(4)
    assert spark.asked == [2, 2, 2]


def test_executors_that_were_idle_for_long_are_released() -> None:
    """A cluster would keep machines that it had needed once; or end one between two stages of a job that uses it."""
    spark, now_s = Spark(), 0.0
    executors = Executors(spark, slots_min=2, slots_max=8, clock=lambda: now_s)
    spark.executors = {"0": True, "1": False, "2": True, "3": True}
    executors.request(4)
    assert executors.idle_slots() == 0
    now_s = 40.0
    spark.executors["2"] = False
    assert executors.idle_slots() == 0
    spark.executors["2"] = True
    now_s = 70.0
    assert executors.idle_slots() == 4, "0 and 3: 2 had a task meanwhile"
    executors.release_idle()
    assert list(spark.executors) == ["1", "2"]
    now_s = 1000.0
    assert executors.idle_slots() == 0, "two are requested"
    executors.request(0)
    assert executors.idle_slots() == 2
    executors.release_idle()
    assert list(spark.executors) == ["1"]
