"""Where a PostgresChangeSource begins when the job has no state."""

from __future__ import annotations

import enum


class StartupMode(enum.Enum):
    """See StartupOptions."""

    INITIAL = "initial"
    LATEST = "latest"
    COMMITTED = "committed"


class StartupOptions:
    """Where a job without state begins. Source: Flink CDC docs, "Postgres CDC Connector", Startup Reading Position."""

    def __init__(self, mode: StartupMode) -> None:
        self.mode = mode

    @staticmethod
    def initial() -> StartupOptions:
        """With the rows that are there; then come the changes."""
        return StartupOptions(StartupMode.INITIAL)

    @staticmethod
    def latest() -> StartupOptions:
        """With the changes that are made from now on."""
        return StartupOptions(StartupMode.LATEST)

    @staticmethod
    def committed() -> StartupOptions:
        """With the changes that were not confirmed for the slot, which must be there."""
        return StartupOptions(StartupMode.COMMITTED)
