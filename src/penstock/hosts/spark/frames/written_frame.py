"""Turn a bounded stream into a DataFrame: a job writes files, and the frame reads them."""

from __future__ import annotations

import atexit
import uuid
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

from pyarrow import fs

from penstock.common.configuration import Configuration, options
from penstock.common.errors import JobError, ProgramError
from penstock.common.files.durable import make_directory
from penstock.common.files.file_systems import absolute, file_system_of
from penstock.common.files.held_directory import HeldDirectory, remove_abandoned
from penstock.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from penstock.common.types import Row, RowKind
from penstock.connectors.files.formats.parquet_format import ParquetWriter, ParquetWriterFactory
from penstock.connectors.files.sink import BucketAssigner, FileSink, OutputFileConfig
from penstock.hosts.spark.driver import session as sessions
from penstock.hosts.spark.failures import cause_in, of_worker
from penstock.hosts.spark.frames.column_types import schema_in_spark
from penstock.hosts.spark.frames.exact_files import exact_files
from penstock.hosts.spark.frames.folders import for_spark
from penstock.hosts.spark.frames.frame_copy import write_files
from penstock.hosts.spark.frames.part_frame import PartFrame
from penstock.hosts.spark.internals.jvm import is_alive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ONE_COLUMN = "f0"
"""The name of the column for a stream whose records have no fields, as in Flink."""


class WrittenFrame:
    """Make a DataFrame from a stream of values of `type_info`: `sink` is the sink of its job, `read` returns the frame.

    `directory`: the folder of the files, which stay. None: a temporary folder, which is removed when the process ends.
    `session`: the program's session; None: the session that runs the job. Raises ProgramError if the type has no
    columns, if `directory` contains files, and on a cluster without `directory`. The job fails at a row that updates
    or deletes another one.
    """

    def __init__(
        self,
        type_info: TypeInformation,
        directory: str | None,
        configuration: Configuration,
        session: SparkSession | None,
    ) -> None:
        self._session = session
        columns = _columns_of(type_info)
        _check_names(columns, configuration, session)
        self._factory = _RowsOnly(columns)
        self._schema = schema_in_spark(self._factory.columns.schema)
        is_continued = configuration.get(options.STATE_RECOVERY_PATH) is not None
        if directory is None:
            self.path = _temporary_folder(configuration, session)
        else:
            self.path = _empty_folder(directory, is_continued)
        builder = FileSink.for_bulk_format(self.path, self._factory)
        names = OutputFileConfig.builder().with_part_suffix(".parquet").build()
        assigner = BucketAssigner.base_path_bucket_assigner()
        self.sink: FileSink = builder.with_bucket_assigner(assigner).with_output_file_config(names).build()

    def compute(self, part: PartFrame, name: str | None) -> bool:
        """Write a DataFrame in place of the job, and return True; False if its columns have other types.

        Raises JobError if Spark cannot compute it.
        """
        if part.frame.schema.simpleString() != self._schema.simpleString():
            return False
        try:
            tag = f"penstock-frame-{uuid.uuid4().hex}"
            part.computed(lambda frame: write_files(frame, self.path, tag, mode="append"))
        except Exception as error:
            if (failure := of_worker(error)) is not None:
                raise failure from None
            raise JobError(f"Spark cannot compute '{name or 'the DataFrame'}': {cause_in(str(error))}") from error
        return True

    def read(self) -> DataFrame:
        """Return the frame of the committed files, after the job has succeeded."""
        from pyspark.sql import SparkSession

        system, inner = file_system_of(self.path)
        # A job without records has not created the directory.
        make_directory(system, inner)
        candidates = (self._session, SparkSession.getActiveSession(), sessions.started_session)
        running = [session for session in candidates if session is not None and is_alive(session)]
        session = running[0] if running else SparkSession.builder.getOrCreate()
        with exact_files(session):
            return session.read.schema(self._schema).parquet(for_spark(self.path))


class _RowsOnly(ParquetWriterFactory):
    """Write rows, and reject changes of rows: a frame would show deleted rows, and both versions of an updated one."""

    def create(self, stream: IO[bytes]) -> ParquetWriter:
        return _RowsOnlyWriter(stream, self)


class _RowsOnlyWriter(ParquetWriter):
    def add_elements(self, elements: Sequence[Any]) -> None:
        for element in elements:
            if isinstance(element, Row) and element._row_kind is not RowKind.INSERT:
                raise JobError(
                    f"to_data_frame: expected rows, got {element!r:.200}, a change of the kind "
                    f"{element.get_row_kind()}: keep the newest row of each key in the stream, or write the changes to "
                    "a table that accepts them, as with PostgresSink"
                )
        super().add_elements(elements)


def record_of(type_info: TypeInformation) -> Any:
    """Return a function that makes a record with one field from a value of this type; None if values are records."""
    return None if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)) else _in_a_tuple


def _in_a_tuple(value: Any) -> tuple[Any]:
    return (value,)


def _columns_of(type_info: TypeInformation) -> RowTypeInfo:
    if isinstance(type_info, RowTypeInfo):
        columns = type_info
    elif isinstance(type_info, TupleTypeInfo):
        columns = RowTypeInfo(type_info.get_field_types())
    else:
        columns = RowTypeInfo([type_info], [_ONE_COLUMN])
    for name, kind in zip(columns.get_field_names(), columns.get_field_types(), strict=True):
        if kind.to_arrow() is None:
            what = f"the field {name!r} of the stream's type has" if columns is type_info else "the stream has"
            raise ProgramError(
                f"{what} a type that a column cannot have ({kind!r}): declare another one, as in "
                "stream.map(function, output_type=Types.ROW_NAMED(['id', 'name'], [Types.LONG(), Types.STRING()]))"
            )
    return columns


def _check_names(columns: RowTypeInfo, configuration: Configuration, session: SparkSession | None) -> None:
    key = "spark.sql.caseSensitive"
    setting = configuration.to_dict().get(key) if session is None else session.conf.get(key)
    seen: dict[str, str] = {}
    for name in columns.get_field_names():
        resolved_name = name if str(setting).lower() == "true" else name.lower()
        if resolved_name in seen:
            raise ProgramError(
                f"to_data_frame: the columns {seen[resolved_name]!r} and {name!r} have the same name for Spark: rename "
                "one of the fields"
            )
        seen[resolved_name] = name


def _temporary_folder(configuration: Configuration, session: SparkSession | None) -> str:
    master = configuration.to_dict().get("spark.master", "local")
    is_local = master.startswith("local") if session is None else sessions.session_is_local(session)
    if not is_local:
        raise ProgramError(
            "to_data_frame: the executors of a cluster write the records to files, which the frame reads: name a "
            "directory that all of them see, as in stream.to_data_frame(directory='s3://bucket/results')"
        )
    remove_abandoned()
    folder = HeldDirectory("frame")
    atexit.register(folder.remove)
    return f"{folder.path}/rows"


def _empty_folder(directory: str, is_continued: bool) -> str:
    path = absolute(directory)
    system, inner = file_system_of(path)
    # A job that continues from a checkpoint may have committed some files already.
    if not is_continued and system.get_file_info(fs.FileSelector(inner, allow_not_found=True)):
        raise ProgramError(
            f"to_data_frame: {path} is not empty, and the frame would contain the records of its files: name an empty "
            "directory, or one that does not exist"
        )
    return path
