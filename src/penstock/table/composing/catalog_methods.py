"""Methods of table environments about tables, views and functions of the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.table.composing.sql_text import quoted, quoted_path

if TYPE_CHECKING:
    from penstock.table.function_catalog import FunctionCatalog
    from penstock.table.table import Table
    from penstock.table.table_descriptor import TableDescriptor


class CatalogMethods:
    """Methods about the catalog. Each is a statement of SQL."""

    functions: FunctionCatalog

    def _rows_of(self, statement: str) -> list[tuple[str | None, ...]]:
        """Execute a statement that starts no job, and return its rows. Internal to the package."""
        raise NotImplementedError

    def list_tables(self) -> list[str]:
        """Return the names of tables and views of the current database, in order."""
        return self._names("SHOW TABLES")

    def list_views(self) -> list[str]:
        """Return the names of views of the current database."""
        return self._names("SHOW VIEWS")

    def list_catalogs(self) -> list[str]:
        """Return the names of catalogs."""
        return self._names("SHOW CATALOGS")

    def list_databases(self) -> list[str]:
        """Return the names of databases of the current catalog."""
        return self._names("SHOW DATABASES")

    def list_modules(self) -> list[str]:
        """Return the names of modules."""
        return [name for name in self._names("SHOW MODULES") if name != "penstock"]

    def list_functions(self) -> list[str]:
        """Return the names of all functions."""
        return self._names("SHOW FUNCTIONS")

    def list_user_defined_functions(self) -> list[str]:
        """Return the names of the program's functions."""
        return [name for name in self._names("SHOW USER FUNCTIONS") if "$" not in name]

    def use_catalog(self, catalog_name: str) -> None:
        """Make a catalog the current one."""
        self._rows_of(f"USE CATALOG {quoted(catalog_name)}")

    def use_database(self, database_name: str) -> None:
        """Make a database the current one."""
        self._rows_of(f"USE {quoted(database_name)}")

    def get_current_catalog(self) -> str:
        """Return the name of the current catalog."""
        return self._names("SHOW CURRENT CATALOG")[0]

    def get_current_database(self) -> str:
        """Return the name of the current database."""
        return self._names("SHOW CURRENT DATABASE")[0]

    def create_temporary_table(self, path: str, descriptor: TableDescriptor, ignore_if_exists: bool = False) -> None:
        """Create a table that lives as long as this environment. Raises SqlError if there is one of that name."""
        self._create(f"TEMPORARY TABLE {_if_not(ignore_if_exists)}", path, descriptor)

    def create_table(self, path: str, descriptor: TableDescriptor, ignore_if_exists: bool = False) -> bool:
        """Create a table in the catalog. Return whether there was none of that name."""
        existed = ignore_if_exists and path in self.list_tables()
        self._create(f"TABLE {_if_not(ignore_if_exists)}", path, descriptor)
        return not existed

    def create_temporary_view(self, view_path: str, table: Table | Any, *fields_or_schema: Any) -> None:
        """Create a view of a Table that lives as long as this environment; of a DataStream as `from_data_stream`."""
        from penstock.table.table import Table

        if not isinstance(table, Table):
            table = self._of_stream(table, *fields_or_schema)
        self._rows_of(f"CREATE TEMPORARY VIEW {quoted_path(view_path)} AS {table.relation.sql()}")

    def create_view(self, view_path: str, table: Table, ignore_if_exists: bool = False) -> bool:
        """Create a view of a Table in the catalog. Return whether there was none of that name."""
        existed = ignore_if_exists and view_path in self.list_views()
        self._rows_of(f"CREATE VIEW {_if_not(ignore_if_exists)}{quoted_path(view_path)} AS {table.relation.sql()}")
        return not existed

    def drop_temporary_view(self, view_path: str) -> bool:
        """Drop a temporary view. Return whether there was one."""
        return self._drop("TEMPORARY VIEW", view_path, self.list_views)

    def drop_view(self, view_path: str, ignore_if_not_exists: bool = True) -> bool:
        """Drop a view. Return whether there was one."""
        return self._drop("VIEW", view_path, self.list_views if ignore_if_not_exists else None)

    def drop_temporary_table(self, table_path: str) -> bool:
        """Drop a temporary table. Return whether there was one."""
        return self._drop("TEMPORARY TABLE", table_path, self.list_tables)

    def drop_table(self, table_path: str, ignore_if_not_exists: bool = True) -> bool:
        """Drop a table. Return whether there was one."""
        return self._drop("TABLE", table_path, self.list_tables if ignore_if_not_exists else None)

    def create_temporary_system_function(self, name: str, function: Any) -> None:
        """Make a function of `udf` or `udtf` known to SQL by a name, in all catalogs."""
        self.functions.create(quoted(name), function, is_system=True)

    def create_temporary_function(self, path: str, function: Any) -> None:
        """Make a function of `udf` or `udtf` known to SQL, in a database."""
        self.functions.create(path, function, is_system=False)

    def create_function(self, path: str, function: Any, ignore_if_exists: bool = False) -> None:
        """Make a function known as `create_temporary_function` does. Not in PyFlink, which takes classes in Java."""
        self.functions.create(path, function, is_system=False, ignore_if_exists=ignore_if_exists)

    def drop_temporary_system_function(self, name: str) -> bool:
        """Forget a function. Return whether there was one."""
        return self.functions.drop(quoted(name), is_system=True)

    def drop_temporary_function(self, path: str) -> bool:
        """Forget a function. Return whether there was one."""
        return self.functions.drop(path, is_system=False)

    def drop_function(self, path: str) -> bool:
        """Forget a function. Return whether there was one."""
        return self.functions.drop(path, is_system=False)

    def _of_stream(self, stream: Any, *fields_or_schema: Any) -> Table:
        raise TypeError(f"expected a Table, got {stream!r}: a StreamTableEnvironment takes DataStreams")

    def _create(self, what: str, path: str, descriptor: TableDescriptor) -> None:
        from penstock.table.table_descriptor import TableDescriptor

        if not isinstance(descriptor, TableDescriptor):
            raise TypeError(f"expected a TableDescriptor, got {descriptor!r}")
        self._rows_of(f"CREATE {what}{quoted_path(path)} {descriptor.sql()}")

    def _drop(self, what: str, path: str, existing: Any) -> bool:
        if existing is not None and "." not in path and path not in existing():
            return False
        self._rows_of(f"DROP {what} {quoted_path(path)}")
        return True

    def _names(self, statement: str) -> list[str]:
        return [str(row[0]) for row in self._rows_of(statement)]


def _if_not(ignore_if_exists: bool) -> str:
    return "IF NOT EXISTS " if ignore_if_exists else ""
