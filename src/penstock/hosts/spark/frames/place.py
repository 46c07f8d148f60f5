"""Where the rows of DataFrames are kept that jobs read."""

from __future__ import annotations

import re
import uuid
import weakref
from typing import TYPE_CHECKING

from penstock.common.configuration import Configuration, options
from penstock.common.configuration.choices import RuntimeExecutionMode
from penstock.common.errors import ProgramError
from penstock.common.files.file_systems import absolute, is_url
from penstock.common.files.held_directory import HeldDirectory, remove_abandoned
from penstock.hosts.spark.driver.session import session_is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BELOW_CHECKPOINTS = "data-frames"


def kept_below(configuration: Configuration) -> str | None:
    """The directory for what a job reads of DataFrames; None: it need not outlast the process.

    Checkpoints in a directory of the user's may be gone on with by another process, which then needs the copies.
    """
    base = configuration.get(options.CHECKPOINT_DIRECTORY)
    if base is None or configuration.get(options.RUNTIME_MODE) is RuntimeExecutionMode.BATCH:
        return None
    return f"{base.rstrip('/')}/{_BELOW_CHECKPOINTS}"


def new_folder(owner: object, session: SparkSession, name: str, directory: str | None) -> str:
    """The path of a folder that no other DataFrame has, below `directory`, where it stays.

    None: a temporary one, which goes when nothing refers to `owner` any more, at the latest with the process. Raises
    ProgramError if that is on no disk that the executors share.
    """
    if directory is not None:
        slug = re.sub(r"\W+", "-", name).strip("-").lower()
        return f"{absolute(directory).rstrip('/')}/{slug}-{uuid.uuid4().hex[:12]}"
    if not session_is_local(session):
        raise ProgramError(
            "a stream reads a copy of a DataFrame, which the executors write and read: give it a directory that all of "
            "them see, as in from_data_frame(frame, directory='s3://bucket/frames')"
        )
    remove_abandoned()
    held = HeldDirectory("frame")
    weakref.finalize(owner, held.remove)
    return f"{held.path}/rows"


def for_spark(path: str) -> str:
    """A path of ours as Spark takes it: it would look for a path without a scheme in its default file system."""
    if not is_url(path):
        return f"file:{path}"
    return f"s3a:{path[3:]}" if path.startswith("s3:") else path
