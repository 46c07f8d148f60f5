"""The version check: penstock runs with the minor version of PySpark that its assumptions were checked with."""

from __future__ import annotations

from penstock.common.errors import ConfigurationError

SUPPORTED = "4.3"
"""The minor version. Patch releases of it may differ between the driver and the executors."""


def check_version(installed: str | None = None, where: str = "this Python") -> None:
    """Refuse a PySpark of another minor version; `installed` defaults to the version of the one that is imported.

    Raises ConfigurationError with the command that installs a suitable version. Takes no time beyond the import.
    """
    if installed is None:
        from pyspark.version import __version__

        installed = str(__version__)
    if installed.split(".")[:2] != SUPPORTED.split("."):
        major, minor = SUPPORTED.split(".")
        raise ConfigurationError(
            f"{where} has PySpark {installed}, penstock needs {SUPPORTED}: it uses parts of Spark that other versions "
            f"may not have. Install it with: pip install 'pyspark>={SUPPORTED},<{major}.{int(minor) + 1}'"
        )
