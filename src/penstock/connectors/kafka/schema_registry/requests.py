"""Requests to a schema registry. Source: Confluent docs, "Schema Registry API Reference"."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any

from penstock.common.errors import JobError
from penstock.connectors.base.retries import TransientError, retried
from penstock.connectors.kafka.schema_registry.access import Access, Address

_CONTENT = "application/vnd.schemaregistry.v1+json"
_TIMEOUT_S = 10.0
_RETRIES_MAX = 3
_TRANSIENT = {408, 429, 500, 502, 503, 504}
_ADVICE = {
    401: "Check user and password: 'basic.auth.user.info' is like user:password",
    403: "The user lacks a right for this subject",
}


class SchemaRegistryError(JobError):
    """The registry could not be reached, or has refused a request: no fault of a message, none is skipped for it.

    `code`: the registry's, 40403 for example; 0 if it has given none.
    """

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class TransientSchemaRegistryError(SchemaRegistryError, TransientError):
    """Another try may succeed: a connection that was lost, a registry that starts or has too much to do."""


def request(access: Access, method: str, path: str, body: Any = None) -> Any:
    """The answer, which is JSON. Raises SchemaRegistryError, after some tries if the registry is away."""
    return retried(lambda: _of_any(access, method, path, body), _RETRIES_MAX)


def _of_any(access: Access, method: str, path: str, body: Any) -> Any:
    for address in access.addresses[:-1]:
        try:
            return _request(access, address, method, path, body)
        except TransientError:
            continue
    return _request(access, access.addresses[-1], method, path, body)


def _request(access: Access, address: Address, method: str, path: str, body: Any) -> Any:
    what = f"the schema registry at {address}"
    headers = {"Accept": _CONTENT, "Content-Type": _CONTENT, **access.headers}
    connection: http.client.HTTPConnection | None = None
    try:
        if address.is_secure:
            connection = http.client.HTTPSConnection(
                address.host, address.port, timeout=_TIMEOUT_S, context=access.tls()
            )
        else:
            connection = http.client.HTTPConnection(address.host, address.port, timeout=_TIMEOUT_S)
        content = None if body is None else json.dumps(body).encode()
        connection.request(method, address.path + path, content, headers)
        response = connection.getresponse()
        status, answer = response.status, response.read()
    except (ssl.SSLCertVerificationError, FileNotFoundError, PermissionError) as error:
        raise SchemaRegistryError(
            f"{what} is not trusted, or a file with certificates can't be read: {error}. Set 'ssl.ca.location' to the "
            "certificates (PEM) that are to be trusted"
        ) from None
    except (OSError, http.client.HTTPException) as error:
        raise TransientSchemaRegistryError(f"{what} is away: {type(error).__name__}: {error}") from None
    finally:
        if connection is not None:
            connection.close()
    return _content_of(f"{what}, {method} {path}", status, answer)


def _content_of(what: str, status: int, answer: bytes) -> Any:
    try:
        content = json.loads(answer) if answer else None
    except ValueError:
        content = None
    if status == 200 and content is not None:
        return content
    told = content if isinstance(content, dict) else {}
    code = told.get("error_code")
    text = told.get("message") or f"{answer[:200].decode(errors='replace')!r}, which is no answer of a registry"
    advice = f"\n{_ADVICE[status]}" if status in _ADVICE else ""
    kind = TransientSchemaRegistryError if status in _TRANSIENT else SchemaRegistryError
    raise kind(f"{what}: {status}: {text}{advice}", code if isinstance(code, int) else 0)
