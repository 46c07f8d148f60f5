"""`penstock end-sessions`: end the JVMs that are kept for the next program."""

from __future__ import annotations

import os

import typer


def end_sessions() -> None:
    """End the JVMs that are kept for the next program: those of Spark, and those that plan SQL."""
    # Imported here, so that `penstock --help` stays fast.
    from penstock.hosts.spark.driver.jvm_lease import end_free_jvms

    count = end_free_jvms(os.environ)
    typer.echo(f"{count} ended" if count else "no idle JVM to end", err=True)
