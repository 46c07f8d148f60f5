"""Flame graphs over REST, by Flink's paths and fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from tests.unit.engine.jobmaster.played_job import plan
from tests.unit.service.rest.served import PlayedJob, Served

from penstock.common.configuration import Configuration
from penstock.common.errors import JobError
from penstock.engine.rpc.messages import Register
from penstock.engine.runtime.task.events import SampledStack, StacksSampled
from penstock.service.rest.flame_graphs import FlameGraphs, tree

ENABLED = {"rest.flamegraph.enabled": "true"}
FOUND = [
    StacksSampled(1, 0, 1, [SampledStack(["run:1", "map:2"], True, 3), SampledStack(["run:1", "wait:9"], False, 1)]),
    StacksSampled(1, 1, 1, [SampledStack(["run:1", "map:2"], True, 4)]),
]
Serve = Callable[..., Served]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    made: list[Served] = []

    def start(settings: dict[str, str] | None = None, **more: Any) -> Served:
        made.append(Served(tmp_path, PlayedJob(plan(2, **more)), settings))
        return made[-1]

    yield start
    for one in made:
        one.endpoint.close()


def runs(served: Served) -> Served:
    for vertex in served.job.played.graph.vertices:
        for subtask in range(vertex.parallelism):
            served.job.played.report(vertex.level, Register(), index=subtask)
    # What is published is a moment old.
    served.job.played.waits(1_000)
    return served


def none(why: int) -> dict[str, Any]:
    return {"endTimestamp": why, "data": None}


def test_the_first_look_has_samples_taken_and_those_after_show_them(serve: Serve) -> None:
    """Flink's page would stay empty, or every look at it would load the job."""
    served = runs(serve(ENABLED | {"rest.flamegraph.num-samples": "8", "rest.flamegraph.stack-depth": "9"}))
    path = served.vertex(1) + "/flamegraph"
    assert served.get(path) == none(-3)
    assert served.get(path) == none(-3)
    ((asked, outcome),) = served.job.samplings
    assert asked == (1, 8, 50, 9)
    outcome.set_result(FOUND)
    shown = served.get(path)
    assert shown["endTimestamp"] > 1_600_000_000_000
    assert shown["data"] == {"name": "root", "value": 8, "children": [{"name": "run:1", "value": 8, "children": [
        {"name": "map:2", "value": 7, "children": []}, {"name": "wait:9", "value": 1, "children": []},
    ]}]}  # fmt: skip
    assert len(served.job.samplings) == 1


def test_a_type_and_a_subtask_are_chosen(serve: Serve) -> None:
    """Who looks for what computes would find what waits, and one slow subtask would not be seen among many."""
    served = runs(serve(ENABLED))
    path = served.vertex(1) + "/flamegraph"
    served.get(path)
    served.job.samplings[0][1].set_result(FOUND)

    def leaves(query: str) -> dict[str, int]:
        root = served.get(f"{path}?{query}")["data"]
        return {leaf["name"]: leaf["value"] for child in root["children"] for leaf in child["children"]}

    assert leaves("type=ON_CPU") == leaves("type=on_cpu") == {"map:2": 7}
    assert leaves("type=OFF_CPU") == {"wait:9": 1}
    assert leaves("type=FULL&subtaskindex=0") == {"map:2": 3, "wait:9": 1}
    assert leaves("type=OFF_CPU&subtaskindex=1") == {}
    assert len(served.job.samplings) == 1, "all types and subtasks are of the same samples"
    served.get(f"{path}?type=BOTH", status=400)
    served.get(f"{path}?subtaskindex=x", status=400)
    served.get(f"{path}?subtaskindex=2", status=404)


def test_there_are_none_that_are_not_enabled_nor_of_tasks_that_do_not_run(serve: Serve, tmp_path: Path) -> None:
    """A job would be asked what its user does not want to be told, or a page would wait for tasks that are gone."""
    served = serve(ENABLED)
    path = served.vertex(1) + "/flamegraph"
    assert served.get(path) == none(-1), "not before they run"
    runs(served).job.played.fails(RuntimeError("a failure"))
    served.job.played.waits(1_000)
    assert served.get(path) == none(-1)
    assert served.job.samplings == []
    for name, settings, batched in (("off", {}, False), ("batch", ENABLED, True)):
        (tmp_path / name).mkdir()
        other = Served(tmp_path / name, PlayedJob(plan(2, batched=batched)), settings)
        try:
            assert other.get(other.vertex(1) + "/flamegraph") == none(-2)
        finally:
            other.endpoint.close()


class Aging:
    """Flame graphs whose clock the test turns; `asked`: what was asked for and is not answered."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.graphs = FlameGraphs(Configuration(), lambda: self.now_ms)
        self.asked: list[Future[list[StacksSampled]]] = []

    def sample(self, *question: int) -> Future[list[StacksSampled]]:
        self.asked.append(Future())
        return self.asked[-1]

    def looks(self, after_ms: int = 0, vertex: int = 1) -> list[StacksSampled] | None:
        self.now_ms += after_ms
        newest = self.graphs.newest(vertex, self.sample)
        return None if newest is None else newest.of_subtasks


def test_samples_that_are_old_are_shown_until_others_are_there() -> None:
    """A page that is open would be empty for five seconds of each minute, or show the state of an hour ago."""
    aging = Aging()
    assert aging.looks() is None and aging.looks(vertex=2) is None
    aging.asked[0].set_result(FOUND)
    assert aging.looks(59_999) == FOUND and len(aging.asked) == 2
    assert aging.looks(1) == FOUND and len(aging.asked) == 3
    assert aging.looks(1) == FOUND and len(aging.asked) == 3, "not asked again before the answer"
    aging.asked[2].set_result(FOUND[:1])
    assert aging.looks() == FOUND[:1]
    assert aging.looks(10 * 60_000) is None, "nobody has looked for as long"


def test_who_could_not_be_asked_is_asked_again() -> None:
    """One look while a job restarts would leave the page empty for good."""
    aging = Aging()
    aging.looks()
    aging.asked[0].set_exception(JobError("the job has ended"))
    assert aging.looks() is None and len(aging.asked) == 2


def test_equal_frames_below_different_ones_stay_apart() -> None:
    """A helper's time would be put down to the wrong caller."""
    root = tree([SampledStack(["a", "h"], True, 2), SampledStack(["b", "h"], True, 1), SampledStack(["a"], True, 1)])
    assert [(one["name"], one["value"], one["children"][0]["value"]) for one in root["children"]] == [
        ("a", 3, 2), ("b", 1, 1),
    ]  # fmt: skip
