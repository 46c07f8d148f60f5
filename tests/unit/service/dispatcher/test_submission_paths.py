"""How a cluster takes jobs and their code, over HTTP."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.common.errors import JobError
from penstock.engine.rpc.keys import ControlAddress, make_keys
from penstock.service.client.rest_client import RestClient
from penstock.service.dispatcher import submission_paths
from penstock.service.dispatcher.dispatcher import DispatchedJob, Phase
from penstock.service.dispatcher.job_store import JobStore
from penstock.service.rest.application import guarded
from penstock.service.rest.token_server import TokenServer

CODE = bytes(20_000_000)
BUNDLE = f"/bundles/penstock-{hashlib.sha256(CODE).hexdigest()[:32]}.bundle"


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore(tmp_path / "jobs of a cluster")


@pytest.fixture
def client(store: JobStore, tmp_path: Path) -> Iterator[RestClient]:
    server = TokenServer("0", {"XDG_CACHE_HOME": str(tmp_path)}, 10.0)
    application = guarded(submission_paths.routes, server.token, server.cookie)
    application.state.dispatcher = SimpleNamespace(store=store)
    server.start(lambda: application, lambda: None, 1.0)
    try:
        yield RestClient(server.address.url, server.token)
    finally:
        server.close()


def test_code_that_has_come_is_there_for_the_next_job(client: RestClient) -> None:
    """A program would send its packages with each of its jobs, or a job start without them."""
    assert client.get(BUNDLE) == {"there": False}
    client.send("PUT", BUNDLE, CODE)
    assert client.get(BUNDLE) == {"there": True}


def test_what_was_damaged_on_its_way_is_not_kept(client: RestClient, store: JobStore) -> None:
    """Jobs would run other code than was sent, now and whenever it is sent again."""
    with pytest.raises(JobError, match="damaged on its way"):
        client.send("PUT", BUNDLE, CODE[:-1])
    assert list(store.bundle("").iterdir()) == []


def test_code_that_can_not_be_kept_is_told_as_that(client: RestClient, store: JobStore) -> None:
    """A user whose cluster has a full disk would be told that there is no cluster."""
    store.bundle("").rmdir()
    with pytest.raises(JobError, match=r"the cluster cannot store the code of the job: .*No such file"):
        client.send("PUT", BUNDLE, CODE)


def test_commands_that_take_long_hold_up_no_other_request(store: JobStore, tmp_path: Path) -> None:
    """Forty savepoints of large jobs, and their cluster would seem to be gone: no list, no page, no other job."""
    keys, jobs = make_keys(), {}
    silent = ControlAddress("tcp://127.0.0.1:9", keys.server_public, keys.client_public, keys.client_secret)
    jobs["id"] = DispatchedJob("id", "job", 1, 0, Phase.RUNNING, "id", control=silent)
    server = TokenServer("0", {"XDG_CACHE_HOME": str(tmp_path)}, 10.0)
    application = guarded(submission_paths.routes, server.token, server.cookie)
    application.state.dispatcher = SimpleNamespace(store=store, find=jobs.get)
    server.start(lambda: application, lambda: None, 1.0)
    client = RestClient(server.address.url, server.token)

    def savepoint() -> tuple[int, bytes]:
        return client.answer("POST", "/submissions/id/commands", b'{"verb": "savepoint"}')

    try:
        with ThreadPoolExecutor(50) as pool:
            asked = [pool.submit(savepoint) for _ in range(50)]
            wait(asked, 2)
            assert client.get(BUNDLE) == {"there": False}
            client.send("PUT", BUNDLE, CODE)
            assert not any(one.done() for one in asked)
            jobs.clear()
            assert {one.result()[0] for one in asked} == {409}
    finally:
        server.close()
