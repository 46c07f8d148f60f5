"""The version check: penstock accepts only the minor version of PySpark with which its assumptions were checked."""

from __future__ import annotations

import warnings

from penstock.common.errors import ConfigurationError

SUPPORTED = "4.3"
"""The minor version. The driver and the executors may have different patch releases of it."""


def check_version(installed: str | None = None, where: str = "this Python") -> None:
    """Reject a PySpark of another minor version. `installed` defaults to the version that this process imports.

    Raises ConfigurationError with the command that installs a suitable version.
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


def quiet_pandas() -> None:
    """Filter PySpark's warning about pandas 3, which it prints when its modules are imported.

    Spark's columns never become pandas frames here, and the tests pass with pandas 2 and 3.
    """
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
