"""Requests to a schema registry. Source: Confluent docs, "Schema Registry API Reference"."""

from __future__ import annotations

import json
import ssl
from typing import Any
from urllib.parse import urlsplit

from penstock.common.errors import JobError
from penstock.common.http import TRANSIENT_STATUSES, NoAnswerError, connection_to, send_request
from penstock.connectors.base.retries import TransientError, retried
from penstock.connectors.kafka.schema_registry.access import Access

_CONTENT = "application/vnd.schemaregistry.v1+json"
_TIMEOUT_S = 10.0
_RETRIES_MAX = 3
_ADVICE = {
    401: "Check user and password: 'basic.auth.user.info' must be like user:password",
    403: "The user lacks a right for this subject",
}


class SchemaRegistryError(JobError):
    """The registry could not be reached, or refused a request. Messages are not skipped for it.

    `code`: the registry's error code, for example 40403; 0 if there is none.
    """

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class TransientSchemaRegistryError(SchemaRegistryError, TransientError):
    """An error after which another try may succeed: a lost connection, a registry that starts or is overloaded."""


def request(access: Access, method: str, path: str, body: Any = None) -> Any:
    """Return the answer, parsed as JSON. Raise SchemaRegistryError, after retries if the registry is unavailable."""
    return retried(lambda: _request_any(access, method, path, body), _RETRIES_MAX)


def _request_any(access: Access, method: str, path: str, body: Any) -> Any:
    for address in access.addresses[:-1]:
        try:
            return _request(access=access, address=address, method=method, path=path, body=body)
        except TransientError:
            continue
    return _request(access=access, address=access.addresses[-1], method=method, path=path, body=body)


def _request(access: Access, address: str, method: str, path: str, body: Any) -> Any:
    what = f"the schema registry at {address}"
    headers = {"Accept": _CONTENT, "Content-Type": _CONTENT, **access.headers}
    content = None if body is None else json.dumps(body).encode()
    try:
        tls = access.tls() if address.startswith("https:") else None
        connection = connection_to(address, _TIMEOUT_S, tls)
        status, answer = send_request(connection, method, urlsplit(address).path + path, body=content, headers=headers)
    except OSError as raised:
        error = raised.cause if isinstance(raised, NoAnswerError) else raised
        if isinstance(error, (ssl.SSLCertVerificationError, FileNotFoundError, PermissionError)):
            raise SchemaRegistryError(
                f"{what} is not trusted, or a file with certificates cannot be read: {error}. Set 'ssl.ca.location' to "
                "the trusted certificates (PEM)"
            ) from None
        raise TransientSchemaRegistryError(f"cannot reach {what}: {type(error).__name__}: {error}") from None
    return _content_of(f"{what}, {method} {path}", status, answer)


def _content_of(what: str, status: int, answer: bytes) -> Any:
    try:
        content = json.loads(answer) if answer else None
    except ValueError:
        content = None
    if status == 200 and content is not None:
        return content
    details = content if isinstance(content, dict) else {}
    code = details.get("error_code")
    text = (
        details.get("message")
        or f"{answer[:200].decode(errors='replace')!r}, which is not an answer of a schema registry"
    )
    advice = f"\n{_ADVICE[status]}" if status in _ADVICE else ""
    kind = TransientSchemaRegistryError if status in TRANSIENT_STATUSES else SchemaRegistryError
    raise kind(f"{what}: {status}: {text}{advice}", code if isinstance(code, int) else 0)
