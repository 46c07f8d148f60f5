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
        """Begin with the existing rows, then read the changes."""
        return StartupOptions(StartupMode.INITIAL)

    @staticmethod
    def latest() -> StartupOptions:
        """Begin with the changes that are made from now on."""
        return StartupOptions(StartupMode.LATEST)

    @staticmethod
    def committed() -> StartupOptions:
        """Begin with the changes that are not confirmed for the slot, which must exist."""
        return StartupOptions(StartupMode.COMMITTED)
