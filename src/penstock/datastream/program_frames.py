"""The sources of a program that are DataFrames, or can become ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.configuration import Configuration, options
from penstock.common.typeinfo import RowTypeInfo
from penstock.connectors.base.collection import CollectionSource
from penstock.connectors.files.source import FileSource
from penstock.engine.plan.frame_parts import FrameParts, SourceKind
from penstock.engine.plan.function_relations import reason_of_columns
from penstock.engine.plan.stream_graph import in_order
from penstock.engine.plan.transformations import SourceTransformation, Transformation
from penstock.service.client.dependencies import Dependencies
from penstock.service.client.script_modules import import_folders

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

    from penstock.hosts.spark.frames.lowering import Lowering
    from penstock.hosts.spark.payload import Payload

    _Table: TypeAlias = "pyarrow.Table | FileSource[Any]"


class ProgramFrames:
    """The DataFrames of a program (`engine/plan/frame_parts.py`). All are of one session: that of the first one.

    Without a DataFrame, it is the session that the program has given, if it reads files. Tables and collections by
    themselves stay in operators: they are small, and no session is started for them.
    """

    def __init__(
        self, ends: Sequence[Transformation], configuration: Configuration, given: SparkSession | None
    ) -> None:
        self._configuration = configuration
        self._directory: str | None = None
        self._tables: dict[int, _Table | str] = {}
        """What makes the DataFrame of each other source; or why there is none."""
        sources = [one for one in in_order(ends) if isinstance(one, SourceTransformation)]
        sessions = (frame.sparkSession for one in sources if (frame := _frame_of(one)) is not None)
        reads_files = any(isinstance(one.source, FileSource) for one in sources)
        self._session: Any = next(sessions, given if reads_files else None)

    @property
    def directory(self) -> str | None:
        """A directory that all executors see; None: a temporary folder is enough."""
        return None if self._is_local else self._directory

    def reason_to_copy(self, source: SourceTransformation) -> str | None:
        """Return why operators have to read a source; None if it is a DataFrame that other ones can read."""
        strategy = source.operator.strategy
        if self._session is None:
            return f"'{source.name}' is not a DataFrame"
        if strategy.has_watermarks or strategy.timestamp_assigner is not None:
            return f"'{source.name}': its records have timestamps"
        frame = _frame_of(source)
        reason = self._reason_of_table(source) if frame is None else self._reason_of_frame(source, frame)
        return None if reason is None else f"'{source.name}'{reason}"

    def kind_of(self, source: SourceTransformation) -> SourceKind:
        """Return where a source has its records."""
        if _frame_of(source) is not None:
            return SourceKind.FRAME
        return SourceKind.FILES if isinstance(source.source, FileSource) else SourceKind.MEMORY

    def is_ordered(self, source: SourceTransformation) -> bool:
        """Return whether the records of a source have an order: one subtask reads them, and not from a DataFrame."""
        return self._parallelism_of(source) == 1 and _frame_of(source) is None

    def reason_for_tasks(self) -> str | None:
        """Return why functions have to run in tasks of a job; None if Spark's own workers can call them."""
        if not self._is_local:
            return "executors on other machines get its function with a job"
        if Dependencies.of(self._configuration) != Dependencies():
            return "the program has files for its workers, which they get with a job"
        return None

    def lowering(self, parts: FrameParts) -> Lowering:
        """Return what makes the DataFrames of these parts."""
        from penstock.hosts.spark.frames.lowering import Lowering

        parallelism = self._configuration.get(options.PARALLELISM)
        return Lowering(parts, parallelism, payload=lambda: self._payload, read=self._frame_to_read)

    def _parallelism_of(self, source: SourceTransformation) -> int:
        return source.parallelism or self._configuration.get(options.PARALLELISM)

    @cached_property
    def _payload(self) -> Payload:
        """What workers need to import functions."""
        from penstock.hosts.spark.job_files import JobFiles
        from penstock.hosts.spark.payload import without_level

        return without_level(JobFiles(path=import_folders()))

    @property
    def _is_local(self) -> bool:
        from penstock.hosts.spark.driver.session import session_is_local

        return session_is_local(self._session)

    def _reason_of_frame(self, stream: SourceTransformation, frame: DataFrame) -> str | None:
        from penstock.hosts.spark.frames.source import reason_to_copy
        from penstock.hosts.spark.internals.jvm import is_alive
        from penstock.hosts.spark.internals.query_plans import is_one_session

        source: Any = stream.source
        if stream.output_type != source.get_produced_type():
            return ": it is declared with another type than its DataFrame has"
        if not is_alive(frame.sparkSession):
            return ": its session was stopped"
        if not is_one_session(frame.sparkSession, self._session):
            return ": it is of another session"
        self._directory = self._directory or source.directory
        reason = reason_to_copy(frame)
        return None if reason is None else f": {reason}"

    def _reason_of_table(self, stream: SourceTransformation) -> str | None:
        from penstock.hosts.spark.internals.jvm import is_alive

        if not is_alive(self._session):
            return ": the session was stopped"
        if stream.id not in self._tables:
            self._tables[stream.id] = self._table_of(stream)
        table = self._tables[stream.id]
        return table if isinstance(table, str) else None

    def _table_of(self, stream: SourceTransformation) -> _Table | str:
        """Return what makes the DataFrame of a source; or why it can't be one."""
        from penstock.connectors.frames.source import TableSource

        source, row_type = stream.source, stream.output_type
        if not isinstance(source, (CollectionSource, TableSource, FileSource)):
            return " is not a DataFrame"
        if (reason := reason_of_columns(row_type)) is not None:
            return f": {reason}"
        if isinstance(source, FileSource):
            return self._files_of(source, row_type)
        from penstock.hosts.spark.frames.table_frame import is_declared, table_of_records

        if isinstance(source, CollectionSource):
            made = table_of_records(source._values, row_type)
            return ": its records have other values than their columns" if made is None else made
        table = source._table
        return table if is_declared(table, row_type) else ": its columns have other types than its rows"

    def _files_of(self, source: FileSource[Any], row_type: RowTypeInfo) -> _Table | str:
        if not self._is_local:
            return ": executors on other machines read files in a job"
        if getattr(source._format, "_on_error", "fail") != "fail":
            return ": what it cannot read is counted, or emitted, by a task"
        return source.on_columns(RecordColumns(row_type)) or ": its format has no columns"

    def _frame_to_read(self, stream: SourceTransformation) -> DataFrame:
        frame = _frame_of(stream)
        if frame is not None:
            return frame
        table = self._tables[stream.id]
        assert not isinstance(table, str), f"'{stream.name}'{table}"
        if isinstance(table, FileSource):
            from penstock.hosts.spark.frames.file_frame import FileReads

            columns = RecordColumns(stream.output_type)
            return FileReads(self._payload, table._format, table._splits(), columns).frame(self._session)
        from penstock.hosts.spark.frames.table_frame import frame_of_table

        return frame_of_table(self._session, table, self._parallelism_of(stream))


def _frame_of(stream: SourceTransformation) -> DataFrame | None:
    # Few programs have one: the others need not import what reads it.
    if not hasattr(stream.source, "frame"):
        return None
    from penstock.hosts.spark.frames.source import DataFrameSource

    return stream.source.frame if isinstance(stream.source, DataFrameSource) else None
