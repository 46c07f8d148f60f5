"""FileSink and its builder."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from pyarrow import fs

from penstock.common.errors import ProgramError
from penstock.common.serialization import Encoder
from penstock.connectors.file_sink.bucket import BucketAssigner
from penstock.connectors.file_sink.committer import FileCommitter
from penstock.connectors.file_sink.part import OutputFileConfig
from penstock.connectors.file_sink.rolling import RollingPolicy
from penstock.connectors.file_sink.writer import FileWriter
from penstock.connectors.file_system.storage import absolute, resolve
from penstock.runtime.sink import Sink, SinkContext


class FileSink(Sink[Any]):
    """Writes records into part files below a base path; each file appears whole, when it is committed.

    Made by a builder: `FileSink.for_row_format("/out", Encoder.simple_string_encoder()).build()`. Files being written
    have hidden names (`.part-….inprogress`); who reads must follow the names without a dot. Files are committed with
    each checkpoint, at the end of the data, and in batched mode when the job has succeeded.
    Source: Flink docs, "FileSystem", File Sink.
    """

    def __init__(
        self,
        base_path: str,
        encode: Callable[[Any], bytes],
        assigner: Any,
        policy: RollingPolicy,
        names: OutputFileConfig,
    ) -> None:
        self._base_path = base_path
        self._encode = encode
        self._assigner = assigner
        self._policy = policy
        self._names = names

    @staticmethod
    def for_row_format(
        base_path: str | os.PathLike[str], encoder: Encoder | Callable[[Any], bytes]
    ) -> RowFormatBuilder:
        """A builder for files to which records are appended one by one.

        `encoder`: an Encoder, or a function from a record to bytes, line end included.
        """
        return RowFormatBuilder(base_path, encoder)

    def create_writer(self, context: SinkContext) -> FileWriter[Any]:
        """A writer for one subtask."""
        return FileWriter(context, self._base_path, self._encode, self._assigner, self._policy, self._names)

    def create_committer(self) -> FileCommitter:
        """Publishes files by renaming them."""
        return FileCommitter()

    def validate(self) -> None:
        """Raise ProgramError if the base path is a file, or its file system is unknown."""
        file_system, inner = resolve(self._base_path)
        if file_system.get_file_info(inner).type is fs.FileType.File:
            raise ProgramError(f"FileSink: {self._base_path} is a file; expected a directory, or a path to make one at")


class RowFormatBuilder:
    """Settings of a FileSink; each method returns the builder. Default: buckets by hour, default rolling policy."""

    def __init__(self, base_path: str | os.PathLike[str], encoder: Encoder | Callable[[Any], bytes]) -> None:
        encode = encoder.encode if isinstance(encoder, Encoder) else encoder
        if not callable(encode):
            raise TypeError(f"expected an Encoder or a function from a record to bytes, got {encoder!r}")
        self._base_path = absolute(base_path)
        self._encode = encode
        self._assigner: Any = BucketAssigner.date_time_bucket_assigner()
        self._policy: RollingPolicy = RollingPolicy.default_rolling_policy()
        self._names = OutputFileConfig()

    def with_bucket_assigner(self, bucket_assigner: Any) -> RowFormatBuilder:
        """A BucketAssigner, or any object with `get_bucket_id(element, context)`."""
        if not callable(getattr(bucket_assigner, "get_bucket_id", None)):
            raise TypeError(f"a bucket assigner needs a method get_bucket_id, got {bucket_assigner!r}")
        self._assigner = bucket_assigner
        return self

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> RowFormatBuilder:
        """When a file is closed and the next begun."""
        if not isinstance(rolling_policy, RollingPolicy):
            raise TypeError(f"expected a RollingPolicy, got {rolling_policy!r}")
        self._policy = rolling_policy
        return self

    def with_bucket_check_interval(self, interval: int) -> RowFormatBuilder:
        """Accepted for PyFlink's sake: here a file is closed when its time has come, not at the next check."""
        return self

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> RowFormatBuilder:
        """Prefix and suffix of file names."""
        self._names = output_file_config
        return self

    def build(self) -> FileSink:
        """The sink."""
        return FileSink(self._base_path, self._encode, self._assigner, self._policy, self._names)
