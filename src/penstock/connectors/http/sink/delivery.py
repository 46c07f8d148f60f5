"""Sends bodies over one connection, and each again until the server has taken it, or has refused it for good."""

from __future__ import annotations

import datetime
import http.client
import logging
import random
from collections.abc import Callable

import msgspec

from penstock.common.http import NO_ANSWER
from penstock.connectors.http.backoff import Backoff
from penstock.connectors.http.endpoint import Endpoint, HttpError, TransientHttpError
from penstock.connectors.http.sockets import shut_down

_RETRY_AFTER_MAX_MS = 600_000
"""A server that wants to be left alone for longer holds up checkpoints: that is a failure."""
_log = logging.getLogger(__name__)


class Delivery(msgspec.Struct, frozen=True):
    """How bodies are sent. `max_retries`: how often one is sent again; `key_header`: None: its name is not sent."""

    endpoint: Endpoint
    content_type: str
    backoff: Backoff = Backoff()
    max_retries: int = 5
    key_header: str | None = "Idempotency-Key"


class Courier:
    """Delivers, on one thread. `pause` waits so many seconds, or less if nothing is to be delivered any more."""

    def __init__(self, delivery: Delivery, pause: Callable[[float], bool]) -> None:
        self._delivery = delivery
        self._pause = pause
        self._connection: http.client.HTTPConnection | None = None
        self._is_interrupted = False

    def deliver(self, body: bytes, key: str) -> None:
        """Raises HttpError if the server refuses it, or does not take it after all tries."""
        delivery = self._delivery
        tries = 0
        while True:
            try:
                self._post(body, key)
                return
            except TransientHttpError as error:
                tries += 1
                if tries > delivery.max_retries:
                    raise HttpError(f"{error}. It was tried {tries} times", error.status) from None
                if (error.retry_after_ms or 0) > _RETRY_AFTER_MAX_MS:
                    text = f"{error}. It can be asked again in {error.retry_after_ms} ms only"
                    raise HttpError(text, error.status) from None
                pause_ms = delivery.backoff.pause_ms(tries, error.retry_after_ms, random.random())
                _log.warning("tried again in %d ms, for the %d. time: %s", pause_ms, tries, error)
                if not self._pause(pause_ms / 1000):
                    raise HttpError(f"{error}. The job ends before another try", error.status) from None

    def interrupt(self) -> None:
        """End what `deliver` waits for; it sends nothing any more. Another thread calls it."""
        self._is_interrupted = True
        connection = self._connection
        if connection is not None:
            shut_down(connection.sock)

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _post(self, body: bytes, key: str) -> None:
        endpoint = self._delivery.endpoint
        headers = endpoint.all_headers(Content_Type=self._delivery.content_type)
        if self._delivery.key_header is not None:
            headers[self._delivery.key_header] = key
        is_used = self._connection is not None
        try:
            response, answer = self._exchange(body, headers)
        except NO_ANSWER as error:
            self.close()
            if not is_used or isinstance(error, TimeoutError) or self._is_interrupted:
                raise endpoint.unreachable(error) from None
            # The server may end a connection that has waited; the key tells it if it has taken the batch before.
            try:
                response, answer = self._exchange(body, headers)
            except NO_ANSWER as again:
                self.close()
                raise endpoint.unreachable(again) from None
        if not 200 <= response.status < 300:
            raise endpoint.refused(response.status, response.headers, answer, datetime.datetime.now(datetime.UTC))

    def _exchange(self, body: bytes, headers: dict[str, str]) -> tuple[http.client.HTTPResponse, bytes]:
        if self._connection is None:
            self._connection = self._delivery.endpoint.connection()
        connection = self._connection
        connection.request("POST", self._delivery.endpoint.target, body, headers)
        response = connection.getresponse()
        answer = self._delivery.endpoint.body_of(response)
        if not response.isclosed():
            self.close()
        return response, answer
