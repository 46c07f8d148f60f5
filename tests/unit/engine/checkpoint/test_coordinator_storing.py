"""The coordinator while a manifest is being stored: the outcome of its checkpoint is open."""

from __future__ import annotations

from tests.unit.engine.checkpoint.coordinated_job import COUNT, SINK, Job

from penstock.engine.checkpoint.manifest import unpacked


def test_a_checkpoint_that_is_being_stored_is_neither_aborted_nor_overtaken() -> None:
    """Its manifest may be stored already: a job that continued without it would publish the same output twice."""
    job = Job(interval_ms=100, timeout_ms=300, concurrent_max=2)
    job.stores_at_once = False
    first = job.triggers()
    job.acknowledge(first, commits=[(SINK, ["1"])])
    job.passes(1_000)
    (second,) = (n for n in job.coordinator.under_way if n != first)
    job.acknowledge(second, commits=[(SINK, ["2"])])
    job.aborts(first)
    job.declines((COUNT, 0), first, "too late to say so")
    assert job.coordinator.under_way == [first, second] and len(job.operations) == 1
    job.stores()
    assert job.complete == [first] and [values for _, _, values in job.committed] == [["1"], ["1"]]
    while job.operations:
        job.stores()
    assert job.complete == [second] and [values for _, _, values in job.committed[2:]] == [["2"], ["2"]]


def test_what_comes_while_a_manifest_is_stored_is_committed_with_the_next_one() -> None:
    """The manifest does not name it: a driver that died then would never commit it."""
    job = Job(concurrent_max=2)
    first, second = job.triggers(), job.triggers()
    job.acknowledge(first, (COUNT, 0), commits=[(SINK, ["1 of subtask 0"])])
    job.stores_at_once = False
    job.acknowledge(second, commits=[(SINK, ["2"])])
    job.acknowledge(first, (COUNT, 1), commits=[(SINK, ["1 of subtask 1"])])
    job.stores_at_once = True
    job.stores()
    named = [unpacked(text)[1] for text in job.storage.latest().commits["w"]]
    assert named == [["1 of subtask 0"], ["2"], ["2"]]
    assert [values for _, _, values in job.committed] == named
    job.acknowledge(job.triggers(), commits=[(SINK, ["3"])])
    assert ["1 of subtask 1"] in [values for _, _, values in job.committed[3:]]
