"""`penstock version`: print installed versions, for bug reports."""

from __future__ import annotations

import platform
from importlib import metadata

import typer

import penstock


def version() -> None:
    """Print the versions of penstock, Python and Spark."""
    typer.echo(f"penstock {penstock.__version__}")
    typer.echo(f"Python   {platform.python_version()}")
    typer.echo(f"Spark    {metadata.version('pyspark')}")
