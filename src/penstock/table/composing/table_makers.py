"""Methods of table environments that make Tables. None of them starts the planner."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.table.composing.relation import Relation
from penstock.table.composing.sql_text import quoted, quoted_path

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from penstock.table.connectors.program_data import ProgramData
    from penstock.table.logical_types import LogicalType
    from penstock.table.table import Table
    from penstock.table.table_config import TableConfig
    from penstock.table.table_descriptor import TableDescriptor
    from penstock.table.table_environment import TableEnvironment
    from penstock.table.user_functions import FunctionDefinition

_PREFIX = "`default_catalog`.`default_database`."


class TableMakers:
    """What Tables are made of."""

    def __init__(self) -> None:
        self._pending: list[str] = []
        """Statements that the planner has to execute before the next one. Internal to the package."""
        self._numbers = itertools.count(1)
        self._data: list[Any] = []
        """Data of the program's tables, which lives as long as the environment."""
        self._views: dict[Relation, str] = {}

    def get_config(self) -> TableConfig:
        """Return the options."""
        raise NotImplementedError

    def from_path(self, path: str) -> Table:
        """Return a table or a view of the catalog."""
        from penstock.table.table import Table

        text = quoted_path(path)
        relation = Relation(
            self,
            lambda: f"SELECT * FROM {text}",
            path=text,
            call="from_path",
        )
        return Table(self._tables, relation)

    from_ = from_path

    def sql_query(self, query: str) -> Table:
        """Return the table of a query. Raises SqlError for another statement; if it is invalid, when it is planned."""
        from penstock.table.planner.statements import check_query
        from penstock.table.table import Table

        if not isinstance(query, str):
            raise TypeError(f"expected a query as text, got {query!r}")
        check_query(query)
        text = query.strip().rstrip(";")
        return Table(self._tables, Relation(self, lambda: text, call="sql_query"))

    def from_descriptor(self, descriptor: TableDescriptor) -> Table:
        """Return a table that is described."""
        schema = descriptor.get_schema()
        known = None if schema is None else [name for name, _, _ in schema.columns]
        return self._table_of_ddl(descriptor.sql(), known, "from_descriptor")

    def from_elements(self, elements: Iterable[Any], schema: Any = None, verify_schema: bool = True) -> Table:
        """Return a table of values: tuples, Rows, dicts, or objects with attributes.

        `schema`: a `DataTypes.ROW([...])`, or names of columns, whose types are those of the values; None: names of
        Rows and keys of dicts, otherwise _1, _2 and so on. A value must fit its type, whatever `verify_schema` says.
        Raises TypeError or ValueError, which names the element.
        """
        from penstock.table.composing.program_values import columns_of_elements

        return self._of_data(*columns_of_elements(elements, schema, self.get_config().get_local_timezone()))

    def from_pandas(self, pdf: pandas.DataFrame, schema: Any = None, splits_num: int = 1) -> Table:
        """Return a table of a DataFrame's columns, without its index. One subtask reads it, in order.

        `schema`: a `DataTypes.ROW([...])`, names, or types of the columns; None: those of the DataFrame.
        """
        import pyarrow

        from penstock.table.composing.program_values import columns_of_arrow

        if not hasattr(pdf, "set_axis"):
            raise TypeError(f"expected a pandas.DataFrame, got {pdf!r:.200}")
        named = pdf.set_axis([str(name) for name in pdf.columns], axis="columns")
        return self._of_data(*columns_of_arrow(pyarrow.Table.from_pandas(named, preserve_index=False), schema))

    def from_arrow(self, table: pyarrow.Table, schema: Any = None) -> Table:
        """Return a table of the columns of a pyarrow.Table: see `from_pandas`. Not in PyFlink."""
        from penstock.table.composing.program_values import columns_of_arrow

        return self._of_data(*columns_of_arrow(table, schema))

    # Internal to the package.

    def _keep(self, data: Any) -> None:
        """Keep what a table reads as long as the environment."""
        self._data.append(data)

    def _table_of_ddl(self, ddl: str, known: Sequence[str] | None, call: str) -> Table:
        """Return a temporary table. `ddl`: the text of CREATE TABLE behind the name."""
        from penstock.table.table import Table

        path = f"{_PREFIX}{quoted(f'Unregistered_Table_{next(self._numbers)}')}"
        self._pending.append(f"CREATE TEMPORARY TABLE {path} {ddl}")
        relation = Relation(
            self,
            lambda: f"SELECT * FROM {path}",
            path=path,
            known=known,
            call=call,
        )
        return Table(self._tables, relation)

    def _name_of_relation(self, relation: Relation) -> str:
        """Return the path of a table, or the name of a temporary view of a query."""
        if relation.path is not None:
            return relation.path
        if relation not in self._views:
            # SQL has it without quotes, as in PyFlink.
            name = f"UnnamedTable${len(self._views)}"
            self._pending.append(f"CREATE TEMPORARY VIEW {_PREFIX}{quoted(name)} AS {relation.sql()}")
            self._views[relation] = f"{_PREFIX}{quoted(name)}"
        return self._views[relation]

    def _name_of_descriptor(self, descriptor: TableDescriptor, relation: Relation) -> str:
        """Return the path of a table to write that is described; one without columns has those of the rows."""
        from penstock.table.schema import Schema
        from penstock.table.table_descriptor import TableDescriptor

        if not isinstance(descriptor, TableDescriptor):
            raise TypeError(f"expected the path of a table or a TableDescriptor, got {descriptor!r}")
        schema = descriptor.get_schema() or Schema.new_builder().build()
        if not schema.physical:
            schema = schema.with_physical([(name, kind) for name, kind, _ in relation.schema()])
        full = TableDescriptor(
            schema, descriptor.get_options(), descriptor.get_partition_keys(), descriptor.get_comment()
        )
        path = self._table_of_ddl(full.sql(), None, "").relation.path
        assert path is not None
        return path

    def _schema_of(self, relation: Relation) -> list[tuple[str, LogicalType, str]]:
        """Return name, type and shown type of each column of a Table."""
        raise NotImplementedError

    def _function_name(self, function: FunctionDefinition, row_names: tuple[str, ...] | None) -> str:
        """Return the name of a function, quoted."""
        raise NotImplementedError

    @property
    def _tables(self) -> TableEnvironment:
        """The environment itself, by its type."""
        raise NotImplementedError

    def _of_data(self, columns: Sequence[tuple[str, LogicalType]], table: pyarrow.Table) -> Table:
        from penstock.table.connectors.program_data import NAME, ProgramData

        data: ProgramData = ProgramData(table)
        self._keep(data)
        listed = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns)
        ddl = f"({listed}) WITH ('connector' = '{NAME}', 'id' = '{data.id}')"
        return self._table_of_ddl(ddl, [name for name, _ in columns], "from_elements")
