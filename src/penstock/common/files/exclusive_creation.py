"""Create a file only if its name is free, atomically: fencing depends on it.

pyarrow does not offer this. Local file systems have hard links, which fail if the name exists. S3 and compatible stores
have conditional puts (`If-None-Match`), which need boto3. Other file systems are checked before the write, so two
processes can both succeed if they do it at the same moment.
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
"""Create a file, by its path in its file system, with this content. Returns False if the name exists or, on a local
file system, the directory is gone. Raises OSError."""


def exclusive_creation(url: str, system: fs.FileSystem) -> Create:
    """Return the function that creates files in `system`, the file system of the path or URL `url`."""
    kind = system.type_name
    if kind == "local":
        return partial(_link, system)
    if kind == "s3":
        client = s3_client(url)
        if client is not None:
            return partial(_put, client)
        _warn(url)
    return partial(_check_then_write, system)


_warned: set[str] = set()
"""Buckets for which the warning was logged."""


def _warn(url: str) -> None:
    bucket = urlsplit(url).netloc
    if bucket not in _warned:
        _warned.add(bucket)
        _log.warning(
            "two runs of a job that start at the same moment may both continue. To prevent that in S3, install boto3: "
            "pip install '%s'",
            S3,
        )


def _link(system: fs.FileSystem, path: str, data: bytes) -> bool:
    unfinished = Path(f"{path}.{uuid.uuid4().hex}.unfinished")
    try:
        unfinished.write_bytes(data)
        sync(system, str(unfinished))
        os.link(unfinished, path)
        # Sync the name, too: an entry that another process has seen must survive a crash of the machine.
        sync_parent(system, path)
        return True
    except (FileExistsError, FileNotFoundError):
        return False
    except OSError as error:
        # The error of a write to a full disk does not name the file.
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
        # Includes the conflict of two concurrent puts: the caller reads the file to find out which one succeeded.
        raise OSError(f"{path} could not be written: {error}") from error


def _check_then_write(system: fs.FileSystem, path: str, data: bytes) -> bool:
    from pyarrow import fs

    if system.get_file_info(path).type is not fs.FileType.NotFound:
        return False
    with system.open_output_stream(path) as stream:
        stream.write(data)
    return True
