"""Queryable state over REST, and its client."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.engine.jobmaster.played_job import plan
from tests.unit.service.rest.served import PlayedJob, Served
from tests.unit.state_processor.conftest import write_snapshot

from penstock.api.windows.window import TimeWindow
from penstock.common.errors import JobError, StateNotFoundError, StateUnavailableError
from penstock.datastream.queryable_state import QueryableStateClient
from penstock.engine.jobmaster.state_query import LiveState, StateQuery
from penstock.engine.runtime.task.events import Opaque
from penstock.engine.state.keys import KeyTypeError
from penstock.service.client.state_request import parts_of
from penstock.service.rest.newest_state import NewestState

ENTRIES = "/jobs/id/state/entries"
COUNT = f"{ENTRIES}?operator=count&state=count"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A job whose third checkpoint is on disk."""
    one = Served(tmp_path, PlayedJob(plan()))
    one.job.played.runs()
    path = write_snapshot(tmp_path / "job", savepoint=False)
    for _ in range(3):
        one.job.played.takes_checkpoint()
    one.job.played.waits(1_000)
    one.endpoint.jobs.add(dataclasses.replace(one.entry, checkpoint_directory=str(path.parent)))
    yield one
    one.endpoint.close()


@pytest.fixture
def client(served: Served) -> QueryableStateClient:
    return QueryableStateClient(served.endpoint.address.url, served.endpoint.token)


def test_keys_are_answered_from_the_newest_completed_checkpoint(served: Served) -> None:
    """A user would have to write a sink to see what his job knows of a customer."""
    answer = served.get(f"{COUNT}&key=7&key=9&key=1000")
    assert answer["checkpoint-id"] == 3 and answer["type"] == "value of Long" and answer["is-complete"]
    assert answer["entries"] == [{"key": 7, "value": 49}, {"key": 9, "value": 81}]
    assert served.get(f"{COUNT}&key='7'")["entries"] == [], "a text is another key than a number"
    listed = served.get("/jobs/id/state")["states"]
    assert {"operator": "count", "operator-name": "Count", "state": "count", "type": "value of Long",
            "queryable-names": []} in listed  # fmt: skip


def test_long_keys_are_asked_for_in_several_requests(client: QueryableStateClient) -> None:
    """The server would hang up in the middle of the request, without a word."""
    keys = [*(f"{n:0>400}" for n in range(500)), 7]
    answers = [client.entries("id", operator="count", state="count", keys=part) for part in parts_of(keys)]
    assert 4 < len(answers) < 10
    assert [answer.entries for answer in answers if answer.entries] == [[{"key": 7, "value": 49}]]
    for too_many in (keys, ["x" * 1_000_000]):
        with pytest.raises(ValueError, match="too many for one REST request"):
            client.entries("id", operator="count", state="count", keys=too_many)


def test_without_a_key_it_is_the_first_entries(served: Served) -> None:
    """A look at some entries of a large state would send all of it."""
    answer = served.get(f"{COUNT}&limit=5")
    assert len(answer["entries"]) == 5 and not answer["is-complete"]
    assert served.get(f"{COUNT}&limit=100")["is-complete"]


def test_what_can_not_be_answered_is_refused_with_its_reason(served: Served, tmp_path: Path) -> None:
    """A slip of the pen would look like a key without state; one bad request like a broken server."""
    assert "'count'" in served.get(f"{ENTRIES}?operator=none&state=count", 404)["errors"][0]
    assert "queryable as 'x'" in served.get(f"{ENTRIES}?name=x", 404)["errors"][0]
    for query in ("", "?operator=count", "?name=a&state=count"):
        served.get(f"{ENTRIES}{query}", 400)
    for query in ("limit=-1", "limit=x", "limit=100000", "key=1e999-1e999", "key=[[]", "key={1,2}"):
        assert served.ask(f"{COUNT}&{query}".replace(" ", "%20"))[0] in (200, 400), query
    served.get(f"{COUNT}&limit=-1", 400)
    served.get(f"{COUNT}&key={'(' * 5_000}", 200)
    gone = dataclasses.replace(
        served.entry, checkpoint_directory=str(tmp_path / "gone"), committed=NewestState(looks=1)
    )
    served.endpoint.jobs.add(gone)
    assert "cannot read the state" in served.get(COUNT, 503)["errors"][0]
    served.endpoint.jobs.add(dataclasses.replace(served.entry, job=PlayedJob(plan())))
    assert "no completed checkpoint" in served.get(COUNT, 404)["errors"][0]


def test_the_client_is_given_values_as_the_job_has_them(client: QueryableStateClient) -> None:
    """A program would have to guess types from JSON."""
    answer = client.entries("id", operator="count", state="window/seen", keys=[7])
    assert answer.entries == [{"key": 7, "namespace": TimeWindow(0, 10), "value": 7}]
    answer = client.entries("id", operator="count", state="totals", keys=[5, 6])
    assert [entry["value"] for entry in answer.entries] == [{"all": 5}, {"all": 6}]
    assert len(client.entries("id", operator="count", state="count", limit=3).entries) == 3
    assert client.states("id").checkpoint_id == 3


LIVE = f"{ENTRIES}?operator=count&state=count&isolation=read-uncommitted"
ROWS = [Opaque([(7, 49)]), Opaque([]), Opaque([(9, (1, "a"))])]


def test_live_state_is_told_as_what_it_is(served: Served, client: QueryableStateClient) -> None:
    """A user would take for committed what a failure takes back."""
    served.job.live = LiveState("count", "count", "value of Long", ["key", "value"], ROWS, True)
    answer = served.get(f"{LIVE}&key=7&key='x'&key=9")
    assert answer["isolation"] == "read-uncommitted" and not answer.keys() & {"checkpoint-id", "completed"}
    assert answer["entries"] == [{"key": 7, "value": 49}, {"key": 9, "value": [1, "a"]}]
    assert served.get(f"{COUNT}&key=7")["isolation"] == "read-committed"
    typed = client.entries("id", operator="count", state="count", keys=[7, 9], isolation="read-uncommitted")
    assert typed.entries[1]["value"] == (1, "a") and typed.checkpoint_id is None
    assert len(served.get(f"{LIVE}&limit=1")["entries"]) == 1
    client.get_kv_state("id", "counts", 7, isolation="read-uncommitted")
    assert served.job.queries == [
        StateQuery("", "count", "count", (7, "x", 9), 0),
        StateQuery("", "count", "count", (7, 9), 0),
        StateQuery("", "count", "count", None, 1),
        StateQuery("counts", "", "", (7,), 0),
    ]


def test_state_is_answered_as_it_is(served: Served, client: QueryableStateClient) -> None:
    """Stars would stand for what looks like a secret in a user's own data, and nobody would hear that it is another."""
    texts = ["https://shop/cb?sig=abc&x=1", "user:x password = hunter2", "http://u:p@h/x", "token=1"]
    rows = [Opaque([(number, text)]) for number, text in enumerate(texts)]
    served.job.live = LiveState("count", "count", "value of String", ["key", "value"], rows, True)
    assert [entry["value"] for entry in served.get(f"{LIVE}&limit=4")["entries"]] == texts
    typed = client.entries("id", operator="count", state="count", limit=4, isolation="read-uncommitted")
    assert [entry["value"] for entry in typed.entries] == texts


@pytest.mark.parametrize(
    "error, status",
    [
        (StateNotFoundError("no such state"), 404),
        (KeyTypeError("no key"), 400),
        (StateUnavailableError("it restarts: try again"), 503),
        (JobError("can't be pickled"), 409),
    ],
)
def test_why_live_state_can_not_be_told(
    served: Served, client: QueryableStateClient, error: Exception, status: int
) -> None:
    """A user would not know whether to try again, or to ask for something else."""
    served.job.live = error
    assert served.get(f"{LIVE}&key=7", status)["errors"] == [str(error)]
    expected = type(error) if status in (404, 503) else JobError
    with pytest.raises(expected, match=str(error)):
        client.get_kv_state("id", "counts", 7, isolation="read-uncommitted")


def test_live_queries_have_bounds(served: Served) -> None:
    """A question for all keys of a state would hold up its stream."""
    for query in ("limit=1001", "&".join(f"key={n}" for n in range(1_001))):
        assert "1000" in served.get(f"{LIVE}&{query}", 400)["errors"][0]
    assert "read-uncommitted" in served.get(f"{COUNT}&isolation=none", 400)["errors"][0]
    served.get(f"{ENTRIES}?isolation=read-uncommitted&key=1", 400)
    assert not served.job.queries


def test_the_client_says_what_was_wrong(client: QueryableStateClient, served: Served) -> None:
    """A user would see an HTTP status."""
    with pytest.raises(StateNotFoundError, match="queryable as 'x'"):
        client.get_kv_state("id", "x", 1)
    with pytest.raises(KeyTypeError, match="a key must be"):
        client.entries("id", operator="count", state="count", keys=[object()])
    with pytest.raises(KeyTypeError, match=r"a key must be .* got int"):
        client.entries("id", operator="count", state="count", keys=[10**5_000])
    with pytest.raises(JobError, match="token"):
        QueryableStateClient(served.endpoint.address.url, "0").states("id")
    served.endpoint.close()
    with pytest.raises(JobError, match="nothing answers at"):
        client.states("id")


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"name": 5}, TypeError, "name must be a str, got 5"),
        ({"name": "counts", "limit": "7"}, TypeError, "limit must be an int, got '7'"),
        ({"name": "counts", "limit": -1}, ValueError, "limit must be from 0 to 10,000"),
        ({"name": "counts", "limit": 2**70}, ValueError, "limit must be from 0 to 10,000"),
        (
            {"name": "counts", "isolation": "uncommitted"},
            ValueError,
            "isolation must be read-committed or read-uncommitted",
        ),
    ],
)
def test_arguments_that_are_none_are_refused_by_the_client(
    client: QueryableStateClient, given: dict[str, Any], error: type[Exception], words: str
) -> None:
    """A live query would wait for a minute, since the job can't read it, or end those of all other threads."""
    with pytest.raises(error, match=words):
        client.entries("id", **given)
