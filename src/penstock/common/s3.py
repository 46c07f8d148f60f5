"""A client of boto3 for a store that pyarrow reaches by a URL: for what pyarrow does not offer."""

from __future__ import annotations

import importlib
from typing import Any
from urllib.parse import parse_qs, urlsplit


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


def bucket_and_key(path: str) -> tuple[str, str]:
    """The two parts of a path inside S3."""
    bucket, _, key = path.strip("/").partition("/")
    return bucket, key


def error_code(error: Exception) -> str:
    """What the store calls an error that boto3 has raised; "" if it is none of the store's."""
    response = getattr(error, "response", {})
    return str(response.get("Error", {}).get("Code", ""))
