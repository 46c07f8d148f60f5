"""`StreamTableEnvironment`: Tables and DataStreams of one program.

Source: PyFlink; Flink docs, "DataStream API Integration".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.table.environment_settings import EnvironmentSettings
from penstock.table.table_environment import TableEnvironment

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation
    from penstock.common.types import Row
    from penstock.datastream.data_stream import DataStream
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.table.changelog_mode import ChangelogMode
    from penstock.table.expression import Expression
    from penstock.table.schema import Schema
    from penstock.table.table import Table


class StreamTableEnvironment(TableEnvironment):
    """A table environment whose jobs have the settings of a StreamExecutionEnvironment.

    A Table that becomes a DataStream is part of the environment's program, which `execute` runs.
    """

    @staticmethod
    def create(  # type: ignore[override]
        stream_execution_environment: StreamExecutionEnvironment | None = None,
        environment_settings: EnvironmentSettings | None = None,
    ) -> StreamTableEnvironment:
        """Return a new environment for tables and streams of one program."""
        from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment

        settings = environment_settings or EnvironmentSettings.in_streaming_mode()
        if not isinstance(settings, EnvironmentSettings):
            raise TypeError(f"expected EnvironmentSettings, got {settings!r}")
        given = stream_execution_environment or StreamExecutionEnvironment.get_execution_environment()
        return StreamTableEnvironment(given, settings)

    def from_data_stream(self, data_stream: DataStream[Any], *fields_or_schema: Expression | Schema) -> Table:
        """Return a table of a stream's records, each of which is an insertion.

        Its columns are those of the stream's type (`Types.ROW_NAMED`, f0 and so on for others). A Schema selects and
        converts them, adds computed columns, the records' event time (`column_by_metadata("rowtime",
        "TIMESTAMP_LTZ(3)")`), and watermarks: its own, or `SOURCE_WATERMARK()` for those of the stream. Expressions
        select and rename columns: `col("f0").alias("id")`, `col("ts").rowtime`, `col("p").proctime`.

        Raises TypeError for a stream whose type is not known, ValueError for fields that it lacks.
        """
        return self._of_stream(data_stream, *fields_or_schema)

    def from_changelog_stream(
        self, data_stream: DataStream[Row], schema: Schema | None = None, changelog_mode: ChangelogMode | None = None
    ) -> Table:
        """Return a table of a stream of Rows whose kinds say what changes: see `from_data_stream`.

        `changelog_mode`: the kinds that come; default: all, with the row that goes before each update.
        """
        from penstock.table.changelog_mode import ChangelogMode
        from penstock.table.streams import table_of_stream

        mode = changelog_mode or ChangelogMode.all()
        return table_of_stream(self, data_stream, [] if schema is None else [schema], mode)

    def to_data_stream(self, table: Table) -> DataStream[Row]:
        """Return the rows of a table as a stream of the environment's program.

        A time attribute gives the records' event time; watermarks stay. Raises SqlError for a table that updates
        or deletes rows: use `to_changelog_stream`.
        """
        from penstock.table.streams import stream_of_table

        return stream_of_table(self, table, takes_changes=False)

    def to_changelog_stream(
        self, table: Table, target_schema: Schema | None = None, changelog_mode: ChangelogMode | None = None
    ) -> DataStream[Row]:
        """Return the changes of a table as a stream of Rows with kinds: see `to_data_stream`.

        `target_schema`: names and types of the columns. `changelog_mode`: those without the row before an update are
        not supported.
        """
        from penstock.table.streams import stream_of_table

        return stream_of_table(self, table, takes_changes=True, schema=target_schema, mode=changelog_mode)

    def to_append_stream(self, table: Table, type_info: TypeInformation) -> DataStream[Row]:
        """Return the rows of a table as a stream, converted to a type: see `to_data_stream`."""
        from penstock.table.streams import stream_of_table

        return stream_of_table(self, table, takes_changes=False, type_info=type_info)

    def to_retract_stream(self, table: Table, type_info: TypeInformation) -> DataStream[Any]:
        """Return the changes of a table as pairs: whether a row comes or goes, and the row."""
        from penstock.table.streams import stream_of_table, with_flag

        rows = stream_of_table(self, table, takes_changes=True, type_info=type_info)
        return rows.map(with_flag)

    # Internal to the package.

    @property
    def execution_environment(self) -> StreamExecutionEnvironment:
        """The environment of the streams."""
        return self._environment

    def _of_stream(self, stream: Any, *fields_or_schema: Any) -> Table:
        from penstock.table.changelog_mode import ChangelogMode
        from penstock.table.streams import table_of_stream

        return table_of_stream(self, stream, fields_or_schema, ChangelogMode.insert_only())

    def _attached(self, sql: str, relation: Any) -> tuple[Any, Any]:
        """Add a query to the environment's program. Return its plan, and its rows on columns."""
        with self._blaming(relation):
            planner = self._synchronized()
            result = planner.execute(sql)
        assert result.plan is not None
        return result.plan, self._attach(planner, result.plan, result.result_table)
