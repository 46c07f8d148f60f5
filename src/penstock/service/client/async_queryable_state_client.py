"""AsyncQueryableStateClient: QueryableStateClient for programs on an event loop.

A REST request uses a connection of the event loop; all live queries of a client share one connection and one thread. So
a thousand pending queries need no thread each.
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
from penstock.service.client.state_request import (
    TIMEOUT_S,
    StateRequest,
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
    """Query the keyed state of jobs, from an event loop.

    `url`: the job's REST endpoint; `token`: the content of its token file. Many tasks of one loop may share a client.

    Methods have the names, arguments, results and errors of QueryableStateClient, and are awaited. Canceling one stops
    its requests. `async with` closes the client.
    """

    def __init__(self, url: str, token: str) -> None:
        self._host = urlsplit(url).netloc or url
        self._url = url if "://" in url else f"http://{url}"
        self._token = token
        self._connection: StateConnection | None = None
        self._connected_job = ""

    @staticmethod
    def of_job(job: str) -> tuple[AsyncQueryableStateClient, str]:
        """Return a client of a job that runs on this machine, and the job's id. Its live queries need no REST.

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
        """Close the connection for live queries, if there is one. Happens also when the client is garbage collected."""
        if self._connection is not None:
            await asyncio.to_thread(self._connection.close)

    async def states(self, job_id: str) -> QueryableStates:
        """Return all keyed states of a job."""
        return from_json(await self._get(f"/jobs/{job_id}/state"), QueryableStates)

    async def get_kv_state(
        self, job_id: str, queryable_state_name: str, key: Any, isolation: Isolation = "read-committed"
    ) -> Any:
        """Return the value of a key, or None; for windowed state, a dict from window to value.

        `key` is None, a number, a string, bytes, or a tuple of these.
        """
        return (await self.get_kv_states(job_id, queryable_state_name, [key], isolation)).get(as_key(key))

    async def get_kv_states(
        self, job_id: str, queryable_state_name: str, keys: Iterable[Any], isolation: Isolation = "read-committed"
    ) -> dict[Any, Any]:
        """Return the values of the keys that have one; up to 500 keys, all as of one checkpoint."""
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
        """Return entries of a state: of these keys, or the first ones up to a limit.

        See QueryableStateClient.entries.
        """
        request = StateRequest(name=name, operator=operator, state=state, keys=keys, limit=limit, isolation=isolation)
        if request.is_live and self._connection is not None:
            asked = self._connection.query(request.command(job_id, self._connected_job))
            try:
                return request.from_job(await asyncio.wait_for(asyncio.wrap_future(asked), TIMEOUT_S))
            except TimeoutError:
                raise too_late() from None
        return request.from_rest(await self._get(request.path(job_id)))

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
    """Everything that a connection has received, in the form that HTTPResponse reads."""

    def __init__(self, received: bytes) -> None:
        self._received = received

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._received)
