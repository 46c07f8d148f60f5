"""`EnvironmentSettings`: how a table environment is created. Source: PyFlink, pyflink.table.EnvironmentSettings."""

from __future__ import annotations

from penstock.common.configuration import Configuration

_CATALOG, _DATABASE = "default_catalog", "default_database"


class EnvironmentSettings:
    """Mode, options, and the names of the first catalog and database of a table environment.

    `EnvironmentSettings.in_streaming_mode()`, or `EnvironmentSettings.new_instance()...build()`.
    """

    def __init__(self, configuration: Configuration, is_streaming: bool, catalog: str, database: str) -> None:
        self._configuration = configuration
        self._is_streaming = is_streaming
        self._catalog = catalog
        self._database = database

    class Builder:
        """Settings. Each method returns the builder."""

        def __init__(self) -> None:
            self._configuration = Configuration()
            self._is_streaming = True
            self._catalog = _CATALOG
            self._database = _DATABASE

        def with_configuration(self, config: Configuration) -> EnvironmentSettings.Builder:
            """Add all options of a Configuration."""
            self._configuration.add_all(config)
            return self

        def in_batch_mode(self) -> EnvironmentSettings.Builder:
            """Run in BATCH mode, in which a query is refused: run it in STREAMING mode, over bounded tables too."""
            self._is_streaming = False
            return self

        def in_streaming_mode(self) -> EnvironmentSettings.Builder:
            """Run in STREAMING mode, the default."""
            self._is_streaming = True
            return self

        def with_built_in_catalog_name(self, built_in_catalog_name: str) -> EnvironmentSettings.Builder:
            """Set the name of the first catalog. Default: `default_catalog`."""
            self._catalog = built_in_catalog_name
            return self

        def with_built_in_database_name(self, built_in_database_name: str) -> EnvironmentSettings.Builder:
            """Set the name of its database. Default: `default_database`."""
            self._database = built_in_database_name
            return self

        def build(self) -> EnvironmentSettings:
            """Return the settings."""
            return EnvironmentSettings(self._configuration, self._is_streaming, self._catalog, self._database)

    @staticmethod
    def new_instance() -> EnvironmentSettings.Builder:
        """Return a builder."""
        return EnvironmentSettings.Builder()

    @staticmethod
    def in_streaming_mode() -> EnvironmentSettings:
        """Return the settings of a streaming environment."""
        return EnvironmentSettings.new_instance().in_streaming_mode().build()

    @staticmethod
    def in_batch_mode() -> EnvironmentSettings:
        """Return the settings of a batch environment: see `Builder.in_batch_mode`."""
        return EnvironmentSettings.new_instance().in_batch_mode().build()

    def is_streaming_mode(self) -> bool:
        """Return whether queries run in STREAMING mode."""
        return self._is_streaming

    def get_configuration(self) -> Configuration:
        """Return the options."""
        return self._configuration

    def get_built_in_catalog_name(self) -> str:
        """Return the name of the first catalog."""
        return self._catalog

    def get_built_in_database_name(self) -> str:
        """Return the name of the first database."""
        return self._database
