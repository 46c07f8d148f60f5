"""The rules of Kubernetes' API server for Leases and ConfigMaps, in memory, and behind HTTP with faults.

Of what the server does, this is what a leader could depend on: versions that each change makes anew, refusal of a stale
one, replacement without a version (ConfigMaps allow it), no new version where nothing changes, creation by replacement
(Leases allow it), and the precondition on the uid that makes it fail for one that was removed. Written after the
documentation and the source of k8s.io/apiserver: no Kubernetes was at hand to compare it with.
"""

from __future__ import annotations

import contextlib
import copy
import enum
import itertools
import json
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from penstock.service.cluster.high_availability.kubernetes_api import ConflictError, Kind, MissingError, Object, Objects

NAMESPACE = "orders"
PATH = re.compile(
    r"/(?:apis/coordination\.k8s\.io/v1/namespaces/([^/]+)/(leases)|api/v1/namespaces/([^/]+)/(configmaps))(?:/([^/]+))?"
)


class Store:
    """The objects, by plural and name. One thread at a time."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self._versions = itertools.count(100)

    def handle(self, method: str, plural: str, name: str | None, found: Object | None) -> tuple[int, Object]:
        """The status and the answer."""
        if method == "GET" and name:
            there = self.objects.get((plural, name))
            return (200, copy.deepcopy(there)) if there else self._missing(plural, name)
        if method == "POST" and name is None and found is not None:
            return self._create(plural, found)
        if method == "PUT" and name and found is not None:
            return self._replace(plural, name, found)
        return _status(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")

    def remove(self, plural: str, name: str) -> None:
        """As somebody does with kubectl."""
        del self.objects[plural, name]

    def _create(self, plural: str, found: Object) -> tuple[int, Object]:
        name = found["metadata"]["name"]
        if (plural, name) in self.objects:
            return _status(409, "AlreadyExists", f'{plural} "{name}" already exists')
        if found["metadata"].get("resourceVersion"):
            return _status(500, "InternalError", "resourceVersion should not be set on objects to be created")
        return 201, self._keep(plural, found, f"uid-{next(self._versions)}")

    def _replace(self, plural: str, name: str, found: Object) -> tuple[int, Object]:
        there, metadata = self.objects.get((plural, name)), found["metadata"]
        if metadata["name"] != name:
            return _status(400, "BadRequest", "the name of the object does not match the name on the URL")
        if metadata.get("uid") and metadata["uid"] != (there or {"metadata": {"uid": ""}})["metadata"]["uid"]:
            return self._conflict(plural, name, "Precondition failed: UID in precondition")
        if there is None:
            if plural != "leases":
                return self._missing(plural, name)
            return 201, self._keep(plural, found, f"uid-{next(self._versions)}")
        version = metadata.get("resourceVersion")
        if not version and plural == "leases":
            return _status(422, "Invalid", "metadata.resourceVersion: must be specified for an update")
        if version and version != there["metadata"]["resourceVersion"]:
            return self._conflict(plural, name, "the object has been modified; please apply your changes to the latest")
        if {**found, "metadata": {**metadata, "resourceVersion": ""}} == {
            **there,
            "metadata": {**there["metadata"], "resourceVersion": ""},
        }:
            return 200, copy.deepcopy(there)
        return 200, self._keep(plural, found, there["metadata"]["uid"])

    def _keep(self, plural: str, found: Object, uid: str) -> Object:
        kept = copy.deepcopy(found)
        kept["metadata"] |= {"uid": uid, "resourceVersion": str(next(self._versions))}
        self.objects[plural, kept["metadata"]["name"]] = kept
        return copy.deepcopy(kept)

    def _missing(self, plural: str, name: str) -> tuple[int, Object]:
        return _status(404, "NotFound", f'{plural} "{name}" not found')

    def _conflict(self, plural: str, name: str, why: str) -> tuple[int, Object]:
        return _status(409, "Conflict", f'Operation cannot be fulfilled on {plural} "{name}": {why}')


class StoredObjects(Objects):
    """The same without HTTP. `step`: called around each request, for what happens meanwhile."""

    def __init__(self, store: Store, step: Callable[[], None]) -> None:
        self._store, self._step = store, step

    def get(self, kind: Kind, name: str) -> Object:
        return self._ask("GET", kind, name)

    def create(self, kind: Kind, found: Object) -> Object:
        return self._ask("POST", kind, None, found)

    def replace(self, kind: Kind, found: Object) -> Object:
        return self._ask("PUT", kind, found["metadata"]["name"], found)

    def _ask(self, method: str, kind: Kind, name: str | None, found: Object | None = None) -> Object:
        self._step()
        status, answer = self._store.handle(method, kind.plural, name, found)
        self._step()
        if status >= 400:
            raise {404: MissingError, 409: ConflictError}[status](answer["message"])
        return answer


class Fault(enum.Enum):
    """What may happen to a request."""

    REFUSED = "500, and nothing was done"
    BUSY = "429, and nothing was done"
    FAILED = "500, and it was done"
    CUT_BEFORE = "the connection ends, and nothing was done"
    CUT_AFTER = "the connection ends, and it was done"
    CUT_WITHIN = "the connection ends within the answer"
    SILENT = "no answer, and nothing was done"
    SILENT_AFTER = "no answer, and it was done"
    LATE = "no answer, and it is done when the server is told to go on"


class ApiServerDouble:
    """It speaks HTTP on the loopback, from `with` on until the block ends. `certificate`: of TLS.

    `fault`: asked for each request, by its number from 1 on and its method. `token`: what must be sent; empty: nothing.
    """

    def __init__(self, certificate: Path | None = None, token: str = "") -> None:
        self.store = Store()
        self.token = token
        self.allowed = {"GET", "POST", "PUT"}
        self.fault: Callable[[int, str], Fault | None] = lambda number, method: None
        self.requests = 0
        self.goes_on = threading.Event()
        """Of requests that wait."""
        self._lock = threading.Lock()
        double = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                double.answer(self)

            do_POST = do_PUT = do_GET  # noqa: N815  # http.server's.

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        if certificate is not None:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(certificate)
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
            self.url = self.url.replace("http", "https")

    def __enter__(self) -> ApiServerDouble:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.goes_on.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """One request, in a thread of its own."""
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        with self._lock:
            self.requests += 1
            fault = self.fault(self.requests, request.command)
        if fault in (Fault.SILENT, Fault.LATE):
            self.goes_on.wait()
        if fault in (None, Fault.FAILED, Fault.CUT_AFTER, Fault.CUT_WITHIN, Fault.SILENT_AFTER, Fault.LATE):
            status, answer = self._done(request, body)
        if fault is Fault.SILENT_AFTER:
            self.goes_on.wait()
        if fault in (Fault.REFUSED, Fault.FAILED):
            status, answer = _status(500, "InternalError", "etcdserver: request timed out")
        if fault is Fault.BUSY:
            status, answer = _status(429, "TooManyRequests", "the server has received too many requests")
        if fault in (None, Fault.REFUSED, Fault.FAILED, Fault.BUSY, Fault.CUT_WITHIN):
            self._send(request, status, json.dumps(answer).encode(), fault is Fault.CUT_WITHIN)
        request.close_connection = True

    def _done(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, Object]:
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return _status(401, "Unauthorized", "Unauthorized")
        found = PATH.fullmatch(request.path)
        if found is None:
            return _status(404, "NotFound", "the server could not find the requested resource")
        namespace, plural = found[1] or found[3], found[2] or found[4]
        if request.command not in self.allowed or namespace != NAMESPACE:
            return _status(403, "Forbidden", f'{plural} is forbidden: User "penstock" cannot {request.command}')
        with self._lock:
            return self.store.handle(request.command, plural, found[5], json.loads(body) if body else None)

    def _send(self, request: BaseHTTPRequestHandler, status: int, text: bytes, cut: bool) -> None:
        # Whoever has asked may be gone.
        with contextlib.suppress(OSError):
            request.send_response(status)
            request.send_header("Content-Type", "application/json")
            request.send_header("Content-Length", str(len(text)))
            request.end_headers()
            request.wfile.write(text[: len(text) // 2] if cut else text)
            if cut:
                request.connection.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def api_server() -> Iterator[ApiServerDouble]:
    """Without TLS and token, as behind `kubectl proxy`."""
    with ApiServerDouble() as double:
        yield double


def _status(code: int, reason: str, message: str) -> tuple[int, Object]:
    return code, {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "code": code,
        "reason": reason,
        "message": message,
    }
