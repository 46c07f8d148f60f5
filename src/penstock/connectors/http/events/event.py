"""Events of a server, and the position behind one."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from penstock.common.stored import stored_as


class ServerSentEvent(NamedTuple):
    """An event: its type, `message` unless the server names one, its data, and the id that was sent last, or ""."""

    event: str
    data: str
    id: str = ""


@stored_as("server-sent-events-split")
class EventsSplit(msgspec.Struct, frozen=True):
    """The events of a source, behind the one with the id `last_id` ("": from where the server begins).

    `retry_ms`: how long to wait before another connection, if the server has said so.
    """

    last_id: str = ""
    retry_ms: int | None = None
    index: int = 0

    @property
    def split_id(self) -> str:
        """There is one."""
        return "events"
