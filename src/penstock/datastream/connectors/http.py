"""A sink that posts records to a server, and a source of server-sent events, without an extra."""

from penstock.common.doors.door import publish
from penstock.connectors.http.endpoint import HttpError
from penstock.connectors.http.events import ServerSentEvent, ServerSentEventSource
from penstock.connectors.http.sink.sink import HttpSink
from penstock.connectors.http.sink.writer import HttpBody

__all__ = [
    "HttpBody",
    "HttpError",
    "HttpSink",
    "ServerSentEvent",
    "ServerSentEventSource",
]

publish(__name__, __all__)
