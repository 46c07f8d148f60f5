"""A client of the API server of Kubernetes, as far as leaders need it: read, create and replace objects.

Each object has a version. A replacement sends the version that was read, and the server refuses it if there is a newer
one: so a write never overwrites a change that its writer has not seen. Reads name no version, so the server answers
with the stored object, not from a cache.

Source: Kubernetes docs, "API Concepts" (resource versions), "Access the Kubernetes API from a Pod".
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

from penstock.common.errors import ConfigurationError
from penstock.common.http import NoAnswerError, connection_to, send_request
from penstock.service.cluster.high_availability.steady_clock import steady_ms

Object = dict[str, Any]
"""An object as it was read. Fields that others have added are sent back unchanged."""
Answer = TypeVar("Answer")

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its token, the certificate of the API server's authority, and its namespace."""
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_LARGEST = 4 * 1024 * 1024
_PAUSE_S = 0.1


class ApiError(OSError):
    """The API server has refused a request, or did not answer: then the request may have taken effect."""


class RefusedError(ApiError):
    """The request is invalid or not allowed; a retry would fail as well."""


class MissingError(ApiError):
    """The object does not exist."""


class ConflictError(ApiError):
    """The object exists already, or has a newer version."""


class Kind(NamedTuple):
    """A kind of objects."""

    api: str
    """The path of its group and version."""
    plural: str
    name: str

    def empty(self, namespace: str, name: str, labels: Mapping[str, str]) -> Object:
        """Return an object to be created."""
        metadata = {"name": name, "namespace": namespace, "labels": dict(labels)}
        version = self.api.split("/", 1)[1]
        return {"apiVersion": version, "kind": self.name, "metadata": metadata}


LEASE = Kind("apis/coordination.k8s.io/v1", "leases", "Lease")
CONFIG_MAP = Kind("api/v1", "configmaps", "ConfigMap")


class Objects(Protocol):
    """The objects of a namespace. All methods raise ApiError."""

    def get(self, kind: Kind, name: str) -> Object:
        """Return the stored object. Raises MissingError."""

    def create(self, kind: Kind, found: Object) -> Object:
        """Create an object, and return it with its version. Raises ConflictError if the name is taken."""

    def replace(self, kind: Kind, found: Object) -> Object:
        """Replace `found`, and return it with its new version.

        Raises ConflictError, MissingError if it has changed since.
        """


class ApiServer(Objects):
    """`url`: the server. `account`: the folder of a service account; None: requests are not authenticated.

    `timeout_s`: how long an answer may take. Raises ConfigurationError. Any thread may call: each request has a
    connection of its own, and reads the token again, which Kubernetes replaces every hour.
    """

    def __init__(self, url: str, namespace: str, account: Path | None, timeout_s: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(f"expected https://HOST:PORT as the API server of Kubernetes, got {url!r}")
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise ConfigurationError(
                f"{url}: an API server without TLS must be on this machine, such as that of `kubectl proxy`"
            )
        self._url = url
        self._namespace = namespace
        self._timeout_s = timeout_s
        self._token = account / "token" if account is not None and parts.scheme == "https" else None
        self._tls = _tls(account / "ca.crt" if account is not None else None) if parts.scheme == "https" else None

    def get(self, kind: Kind, name: str) -> Object:
        return self._request("GET", self._path(kind, name))

    def create(self, kind: Kind, found: Object) -> Object:
        return self._request("POST", self._path(kind), found)

    def replace(self, kind: Kind, found: Object) -> Object:
        return self._request("PUT", self._path(kind, found["metadata"]["name"]), found)

    def _path(self, kind: Kind, *name: str) -> str:
        return "/".join((f"/{kind.api}/namespaces/{self._namespace}/{kind.plural}", *name))

    def _request(self, method: str, path: str, body: Object | None = None) -> Object:
        what = f"{method} {path}"
        headers = {"Accept": "application/json", "User-Agent": "penstock"}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token.read_text(encoding='ascii').strip()}"
        connection = connection_to(self._url, self._timeout_s, self._tls)
        try:
            status, text = send_request(connection, method, path, body=data, headers=headers, bytes_max=_LARGEST)
        except NoAnswerError as error:
            raise ApiError(f"the API server of Kubernetes did not answer {what}: {error}") from error
        return _object(status, text, what)


def address_in(environ: Mapping[str, str]) -> str | None:
    """Return the URL of the API server of this pod's cluster, or None outside of a pod."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        return None
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def retry_unanswered(
    call: Callable[[], Answer],
    for_ms: int,
    now_ms: Callable[[], int] = steady_ms,
    pause: Callable[[float], object] = time.sleep,
) -> Answer:
    """Retry a call until the server answers, for so long. Raises OSError; a refusal is not retried."""
    until_ms = now_ms() + for_ms
    while True:
        try:
            return call()
        except RefusedError:
            raise
        except OSError:
            if now_ms() > until_ms:
                raise
            pause(_PAUSE_S)


def _tls(authority: Path | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=authority)
    except OSError as error:
        raise ConfigurationError(
            f"the certificate of the API server's authority can't be read: {authority}: {error}"
        ) from error
    # Python 3.13 refuses authorities without a key identifier, which clusters have.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _object(status: int, text: bytes, what: str) -> Object:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    message = found.get("message") if isinstance(found, dict) else None
    reason = message or text[:200].decode(errors="replace")
    how = f"the API server of Kubernetes answered {what} with status {status}: {reason}"
    if status == 404:
        raise MissingError(how)
    if status == 409:
        raise ConflictError(how)
    if status in (200, 201):
        if isinstance(found, dict) and isinstance(found.get("metadata"), dict):
            return found
        raise ApiError(f"{how}, which is not an object")
    if status == 429 or status >= 500:
        raise ApiError(how)
    raise RefusedError(how)
