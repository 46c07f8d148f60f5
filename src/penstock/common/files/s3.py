"""S3 stores given by pyarrow's URLs: a quick check whether one answers, and a client for what pyarrow does not offer.

The check exists because pyarrow tries for seconds to reach a missing store, and then shows an error of its SDK.
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
    """Return a boto3 client for the store of this URL, or None if boto3 is not installed."""
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
    """Raise OSError if the store of an S3 URL does not accept a connection within three seconds.

    Other URLs and paths are ignored, and the bucket is not checked.
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
    """Return host and port of the store, or None if a proxy is used or they are unknown."""
    parts = urlsplit(url)
    query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    given = query.get("endpoint_override") or next(filter(None, map(environ.get, _ENDPOINTS)), None)
    scheme = query.get("scheme", "https")
    if given is None:
        if any(environ.get(name) for name in _PROXIES) or not parts.hostname:
            return None
        # pyarrow looks up the region of a bucket there if the URL has no region.
        region = query.get("region") or "us-east-1"
        return f"{parts.hostname}.s3.{region}.amazonaws.com{'.cn' * region.startswith('cn-')}", _PORTS["https"]
    address = urlsplit(given if "://" in given else f"{scheme}://{given}")
    port = address.port or _PORTS.get(address.scheme)
    return None if not address.hostname or port is None else (address.hostname, port)


def bucket_and_key(path: str) -> tuple[str, str]:
    """Split a path inside S3 into bucket and key."""
    bucket, _, key = path.strip("/").partition("/")
    return bucket, key


def error_code(error: Exception) -> str:
    """Return the store's code of an error that boto3 has raised; "" if the error is not from the store."""
    # The attribute is None if there was no answer.
    response = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))
