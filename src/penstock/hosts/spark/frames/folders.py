"""The folders for rows of DataFrames that jobs read."""

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


def durable_directory(configuration: Configuration) -> str | None:
    """Return the directory for the rows that a job reads, or None if a temporary folder is enough.

    With a checkpoint directory, another process may continue the job from a checkpoint, and then needs the rows.
    """
    base = configuration.get(options.CHECKPOINT_DIRECTORY)
    if base is None or configuration.get(options.RUNTIME_MODE) is RuntimeExecutionMode.BATCH:
        return None
    return f"{base.rstrip('/')}/{_BELOW_CHECKPOINTS}"


def new_folder(owner: object, session: SparkSession, name: str, directory: str | None) -> str:
    """Return the path of a folder for one DataFrame, below `directory`.

    `directory` None: a temporary folder, which is removed with `owner`, or when the process ends. Raises ProgramError
    if executors on other machines would not see that folder.
    """
    if directory is not None:
        slug = re.sub(r"\W+", "-", name).strip("-").lower()
        return f"{absolute(directory).rstrip('/')}/{slug}-{uuid.uuid4().hex[:12]}"
    if not session_is_local(session):
        raise ProgramError(
            "a stream reads a copy of a DataFrame, which the executors write and read: name a directory that all of "
            "them see, as in from_data_frame(frame, directory='s3://bucket/frames')"
        )
    remove_abandoned()
    folder = HeldDirectory("frame")
    weakref.finalize(owner, folder.remove)
    return f"{folder.path}/rows"


def for_spark(path: str) -> str:
    """Return the path in Spark's form. Without a scheme, Spark would use its default file system."""
    if not is_url(path):
        return f"file:{path}"
    return f"s3a:{path[3:]}" if path.startswith("s3:") else path
