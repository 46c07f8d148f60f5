"""Creating a file only if there is none of its name, in one step: the operation on which fencing stands.

pyarrow does not offer it. A file system has hard links, which fail if the name exists. S3, and what speaks its
protocol, has conditional puts (`If-None-Match`), for which boto3 is needed. Elsewhere it is looked before it is
written, which leaves a moment in which two processes can both succeed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from penstock.common.doors.extras import S3
from penstock.common.files.durable import sync, sync_parent
from penstock.common.files.s3 import bucket_and_key, error_code, s3_client

if TYPE_CHECKING:
    from pyarrow import fs

_log = logging.getLogger(__name__)

Create = Callable[[str, bytes], bool]
"""Create a file, by its path in its file system, with this content. False: there is one of that name, or (on a local
file system) its directory is gone. Raises OSError."""


def exclusive_creation(url: str, system: fs.FileSystem) -> Create:
    """How files are created in the file system `system`, to which the path or URL `url` leads."""
    kind = system.type_name
    if kind == "local":
        return partial(_link, system)
    if kind == "s3":
        client = s3_client(url)
        if client is not None:
            return partial(_put, client)
        _warn(url)
    return partial(_look, system)


_warned: set[str] = set()
"""Buckets about which the user has been told."""


def _warn(url: str) -> None:
    bucket = urlsplit(url).netloc
    if bucket not in _warned:
        _warned.add(bucket)
        _log.warning(
            "two runs of a job that start at the same moment may both go on: to tell them apart in S3, install boto3 "
            "(pip install '%s')",
            S3,
        )


def _link(system: fs.FileSystem, path: str, data: bytes) -> bool:
    unfinished = Path(f"{path}.{uuid.uuid4().hex}.unfinished")
    try:
        unfinished.write_bytes(data)
        sync(system, str(unfinished))
        os.link(unfinished, path)
        # The name, too: after a crash of the machine an entry that was seen must still be there.
        sync_parent(system, path)
        return True
    except (FileExistsError, FileNotFoundError):
        return False
    except OSError as error:
        # A disk that is full says so when it is written to, and does not say which.
        raise OSError(error.errno, error.strerror, path) from error
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink()


def _put(client: Any, path: str, data: bytes) -> bool:
    bucket, key = bucket_and_key(path)
    try:
        client.put_object(Bucket=bucket, Key=key, Body=data, IfNoneMatch="*")
        return True
    except Exception as error:
        if error_code(error) == "PreconditionFailed":
            return False
        # Also the conflict of two puts that run at once: whether this one counts is found out by reading.
        raise OSError(f"{path} could not be written: {error}") from error


def _look(system: fs.FileSystem, path: str, data: bytes) -> bool:
    from pyarrow import fs

    if system.get_file_info(path).type is not fs.FileType.NotFound:
        return False
    with system.open_output_stream(path) as stream:
        stream.write(data)
    return True
