"""What users type on pages, and what long answers are cut to."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from tests.unit.service.dispatcher.played_cluster import PlayedCluster
from tests.unit.service.rest.served import Served

from penstock.common.errors import JobError
from penstock.service.client.rest_client import RestClient
from penstock.service.dashboard.actions import outcome_of
from penstock.service.dashboard.endpoint import Endpoint
from penstock.service.dashboard.logs_part import logs_of, newest_lines
from penstock.service.dashboard.state_part import keys_in, label_of, query_of, source_of


@pytest.mark.parametrize(
    ("text", "keys"),
    [("", []), (" JFK LGA ", ["JFK", "LGA"]), ("(1, 'a')", ["(1, 'a')"]), ("'New York'", ["'New York'"]), ("5", ["5"])],
)
def test_keys_are_typed_as_words_or_as_one_literal(text: str, keys: list[str]) -> None:
    """A key with a blank could not be asked for, or two keys would need two questions."""
    assert keys_in(text) == keys


def test_state_is_asked_for_as_rest_takes_it() -> None:
    """Names with blanks or signs would ask for another state."""
    asked = parse_qs(query_of("a & b", "total", "JFK LGA", live=True))
    assert asked["operator"] == ["a & b"] and asked["key"] == ["JFK", "LGA"]
    assert asked["isolation"] == ["read-uncommitted"]
    assert "isolation" not in parse_qs(query_of("a", "total", "", live=False))


def test_state_says_what_it_is_and_of_when() -> None:
    """Values that a failure may take back would be read as facts."""
    one = {"operator-name": "sums", "state": "total", "type": "value of Long", "queryable-names": ["sums"]}
    assert label_of(one) == "sums · total: value of Long, queryable as 'sums'"
    assert "checkpoint 7" in source_of({"checkpoint-id": 7, "completed": 0})
    assert "a failure may roll this back" in source_of({})


def test_newest_lines_of_a_log_are_shown() -> None:
    """The line that tells what has just happened would be far below."""
    text = "\n".join(f"line {number}" for number in range(500))
    assert newest_lines(text, "", 2) == (["line 498", "line 499"], 498)
    assert newest_lines(text, "line 49", 100) == (["line 49", *(f"line {n}" for n in range(490, 500))], 0)


def test_logs_of_the_driver_are_listed(served: Served) -> None:
    """Nobody would know that there are any."""
    (served.logs / "driver.log").write_text("one line\n")

    async def read() -> None:
        endpoint = Endpoint(RestClient(served.endpoint.address.url, served.endpoint.token))
        assert (await logs_of(endpoint, "id"))["/jobmanager/logs/driver.log"] == "driver.log"
        assert await endpoint.text("/jobmanager/logs/driver.log?last=5") == "line\n"
        assert await endpoint.text("/jobmanager/logs/driver.log?last=99") == "one line\n"
        with pytest.raises(JobError, match="last must be a number of bytes"):
            await endpoint.text("/jobmanager/logs/driver.log?last=-1")

    asyncio.run(read())


def test_of_a_clusters_logs_those_of_the_job_come_first(tmp_path: Path) -> None:
    """Whoever looks for why a job has failed would read the log of the cluster, or that of another job."""
    cluster = PlayedCluster(tmp_path)
    (tmp_path / "cluster.log").write_text("it serves")
    for id in ("aaaaaaaa1111", "bbbbbbbb2222"):
        (tmp_path / "logs" / id).mkdir(parents=True)
        (tmp_path / "logs" / id / "driver.log").write_text(id)

    async def read() -> None:
        endpoint = Endpoint(cluster.client)
        found = await logs_of(endpoint, "bbbbbbbb2222")
        assert list(found.values())[:2] == ["driver.log", "cluster.log"]
        assert await endpoint.text(next(iter(found))) == "bbbbbbbb2222"
        workers = {path.split("/")[2] for path in found if path.startswith("/taskmanagers")}
        assert workers and all(worker.startswith("bbbbbbbb-") for worker in workers)

    asyncio.run(read())
    cluster.close()


def test_the_outcome_of_a_savepoint_is_a_sentence() -> None:
    """Whether it was written, and where, would stay unknown."""
    assert outcome_of({"location": "/s/1"}) == "Savepoint: /s/1"
    assert outcome_of({"failure-cause": {"stack-trace": "the disk is full"}}) == "the disk is full"
