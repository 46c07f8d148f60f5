"""AsyncQueryableStateClient: what QueryableStateClient asks, for programs on an event loop.

A request over REST is a connection of the loop's; live queries of a client share one connection, with one thread for
all of them. So a thousand questions that wait cost no thread each.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import socket
import weakref
from collections.abc import Iterable
from typing import Any, cast
from urllib.parse import urlsplit

from penstock.common.values.decoding import from_json
from penstock.engine.rpc.state_connection import StateConnection
from penstock.engine.snapshots.state_answer import Isolation, QueryableStates, StateAnswer
from penstock.engine.state.container_keys import as_key
from penstock.service.client.state_question import (
    TIMEOUT_S,
    StateQuestion,
    checked,
    connect,
    no_rest,
    parts_of,
    too_late,
    unanswered,
    values_of,
)
from penstock.service.cluster.rest_tls import trusted


class AsyncQueryableStateClient:
    """`url`: that of the job's REST endpoint; `token`: what is in its file. May be used by many tasks of one loop.

    Methods have the names, arguments, results and errors of QueryableStateClient, and are awaited. One that is
    cancelled asks no further. `async with` closes the client.
    """

    def __init__(self, url: str, token: str) -> None:
        self._host = urlsplit(url).netloc or url
        self._url = url if "://" in url else f"http://{url}"
        self._token = token
        self._connection: StateConnection | None = None
        self._connected_job = ""

    @staticmethod
    def of_job(job: str) -> tuple[AsyncQueryableStateClient, str]:
        """A client of a job that runs on this machine, and the id of the job. Its live queries need no REST.

        `job`: its id, a prefix of it, or its name. Raises JobError if there is none. Not awaited: it reads a file.
        """
        url, token, connection, job_id = connect(job)
        client = AsyncQueryableStateClient(url, token)
        client._connection, client._connected_job = connection, job_id
        weakref.finalize(client, connection.close)
        return client, job_id

    async def __aenter__(self) -> AsyncQueryableStateClient:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection for live queries, if there is one. This is done, too, when nothing uses the client."""
        if self._connection is not None:
            await asyncio.to_thread(self._connection.close)

    async def states(self, job_id: str) -> QueryableStates:
        """All keyed states of a job."""
        return from_json(await self._get(f"/jobs/{job_id}/state"), QueryableStates)

    async def get_kv_state(
        self, job_id: str, queryable_state_name: str, key: Any, isolation: Isolation = "read-committed"
    ) -> Any:
        """The value of a key; None: it has none. Of windows: a dict from window to value.

        `key` is None, a number, a text, bytes, or a tuple of these.
        """
        return (await self.get_kv_states(job_id, queryable_state_name, [key], isolation)).get(as_key(key))

    async def get_kv_states(
        self, job_id: str, queryable_state_name: str, keys: Iterable[Any], isolation: Isolation = "read-committed"
    ) -> dict[Any, Any]:
        """The values of those keys that have one, all of one checkpoint if there are 500 keys at most."""
        values: dict[Any, Any] = {}
        for some in parts_of(keys):
            values |= values_of(await self.entries(job_id, name=queryable_state_name, keys=some, isolation=isolation))
        return values

    async def entries(
        self,
        job_id: str,
        *,
        name: str | None = None,
        operator: str | None = None,
        state: str | None = None,
        keys: Iterable[Any] = (),
        limit: int = 100,
        isolation: Isolation = "read-committed",
    ) -> StateAnswer:
        """Entries of a state, as QueryableStateClient.entries gives them: of these keys, or the first up to a limit."""
        question = StateQuestion(name, operator, state, keys, limit, isolation)
        if question.is_live and self._connection is not None:
            asked = self._connection.ask(question.command(job_id, self._connected_job))
            try:
                return question.told(await asyncio.wait_for(asyncio.wrap_future(asked), TIMEOUT_S))
            except TimeoutError:
                raise too_late() from None
        return question.read(await self._get(question.path(job_id)))

    async def _get(self, path: str) -> bytes:
        if not self._host:
            raise no_rest()
        try:
            status, body = await asyncio.wait_for(self._exchange(path), TIMEOUT_S)
        except (OSError, http.client.HTTPException) as error:
            raise unanswered(self._url, error) from error
        return checked(status, body)

    async def _exchange(self, path: str) -> tuple[int, bytes]:
        at = urlsplit(self._url)
        reader, writer = await asyncio.open_connection(at.hostname, at.port, ssl=trusted(self._url))
        try:
            head = [f"GET {path} HTTP/1.1", f"Host: {self._host}", f"Authorization: Bearer {self._token}"]
            writer.write("\r\n".join([*head, "Connection: close", "", ""]).encode("ascii"))
            answer = http.client.HTTPResponse(cast(socket.socket, _Received(await reader.read())))
            answer.begin()
            return answer.status, answer.read()
        finally:
            writer.close()


class _Received:
    """All that a connection has brought, in the form in which HTTPResponse reads."""

    def __init__(self, received: bytes) -> None:
        self._received = received

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._received)
