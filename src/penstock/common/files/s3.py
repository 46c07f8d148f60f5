"""A store of S3 that pyarrow reaches by a URL: whether it is there, and a client for what pyarrow does not offer.

pyarrow tries for seconds to reach a store that is not, and says so in the words of its SDK.
"""

from __future__ import annotations

import importlib
import os
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

_CONNECT_S = 3.0
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_PROXIES = ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
_PORTS = {"http": 80, "https": 443}


def s3_client(url: str) -> Any:
    """A client for the store that pyarrow reaches by this URL; None: boto3 is not installed."""
    try:
        boto3 = importlib.import_module("boto3")
    except ImportError:
        return None
    parts = urlsplit(url)
    query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    endpoint = query.get("endpoint_override")
    if endpoint is not None and "://" not in endpoint:
        endpoint = f"{query.get('scheme', 'https')}://{endpoint}"
    return boto3.client(
        "s3",
        region_name=query.get("region"),
        endpoint_url=endpoint,
        aws_access_key_id=parts.username,
        aws_secret_access_key=parts.password,
    )


def check_answers(url: str, environ: Mapping[str, str] = os.environ) -> None:
    """Raise OSError if nothing listens where the store of this URL is. Other URLs, and paths, are not looked at.

    It is found out by one connection, of three seconds at most; whether the bucket is there is not asked.
    """
    if not url.startswith("s3:"):
        return
    endpoint = _endpoint_of(url, environ)
    if endpoint is None:
        return
    host, port = endpoint
    try:
        socket.create_connection((host, port), _CONNECT_S).close()
    except OSError as error:
        raise OSError(
            f"no store answers at {host}:{port}: {error}. Is the endpoint right (endpoint_override=HOST:PORT in the "
            "URL, or AWS_ENDPOINT_URL), and is there a network?"
        ) from None


def _endpoint_of(url: str, environ: Mapping[str, str]) -> tuple[str, int] | None:
    """None: it is reached by way of a proxy, or not known."""
    parts = urlsplit(url)
    query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    given = query.get("endpoint_override") or next(filter(None, map(environ.get, _ENDPOINTS)), None)
    scheme = query.get("scheme", "https")
    if given is None:
        if any(environ.get(name) for name in _PROXIES) or not parts.hostname:
            return None
        # Where pyarrow asks for the region of a bucket, if it is not told.
        region = query.get("region") or "us-east-1"
        return f"{parts.hostname}.s3.{region}.amazonaws.com{'.cn' * region.startswith('cn-')}", _PORTS["https"]
    address = urlsplit(given if "://" in given else f"{scheme}://{given}")
    port = address.port or _PORTS.get(address.scheme)
    return None if not address.hostname or port is None else (address.hostname, port)


def bucket_and_key(path: str) -> tuple[str, str]:
    """The two parts of a path inside S3."""
    bucket, _, key = path.strip("/").partition("/")
    return bucket, key


def error_code(error: Exception) -> str:
    """What the store calls an error that boto3 has raised; "" if it is none of the store's."""
    # A request without an answer has one, too, which is None.
    response = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))
