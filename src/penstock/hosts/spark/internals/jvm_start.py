"""Start JVMs by PySpark, which itself waits without end for one that was stopped, and for one that exits with 0."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from penstock.common.errors import SparkLostError
from penstock.hosts.spark.internals.jvm import is_lost_connection, jvm_has_ended, kill_jvm, quiet_py4j

START_S = 120.0
"""So long the start of a JVM may take, and so long that of a context in it: 5 s each are usual, 40 on a machine with
ten times the work that it can do."""
_END_S = 10.0
_ENDS_S = 2.0
"""A process that is killed refuses connections for a moment before it is gone."""
_LAUNCHES = threading.Lock()


class _Process(subprocess.Popen[bytes]):
    """PySpark waits until the JVM has written its port, or `poll` gives a code that is not 0."""

    def poll(self) -> int | None:
        code = super().poll()
        return 1 if code == 0 else code


class _Conf:
    """What the launcher asks of a SparkConf, which is made by the JVM itself."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings

    def getAll(self) -> list[tuple[str, str]]:  # noqa: N802
        return list(self._settings.items())


class JvmStart:
    """One start of a JVM, or of a context in one. `end`: ends the JVM, if another process has started it."""

    def __init__(self, end: Callable[[], object] | None = None) -> None:
        self._end = end
        self._process: _Process | None = None
        self._late_after_s: float | None = None

    @contextlib.contextmanager
    def within(self, seconds: float | None) -> Iterator[None]:
        """End the JVM if the block takes longer, by which calls into it fail. None: there is no limit.

        Raises SparkLostError if the JVM ends, by this or by itself.
        """
        timer = threading.Timer(seconds, self._give_up, [seconds]) if seconds is not None else None
        if timer is not None:
            timer.daemon = True
            timer.name = "penstock-jvm-start"
            timer.start()
        try:
            yield
        except Exception as error:
            if (text := self._loss(error)) is None:
                raise
            raise SparkLostError(text) from error
        finally:
            if timer is not None:
                timer.cancel()
        if self._late_after_s is not None:
            raise SparkLostError(self._late())

    def launch(self, settings: Mapping[str, str]) -> Any:
        """Start the JVM with these settings of Spark, or connect to the one that the environment names.

        Returns its Py4J gateway. Raises what PySpark raises; `kill` ends what has started until then.
        """
        from pyspark import java_gateway

        quiet_py4j()
        module: Any = java_gateway
        with _LAUNCHES:
            popen, module.Popen = module.Popen, self._popen
            try:
                return module.launch_gateway(_Conf(settings))
            finally:
                module.Popen = popen

    def kill(self) -> None:
        """Kill the JVM, if it was started here, and wait for its end. Raises nothing."""
        if self._process is not None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                self._process.kill()
                self._process.wait(_ENDS_S)

    def _popen(self, *arguments: Any, **options: Any) -> _Process:
        self._process = _Process(*arguments, **options)
        return self._process

    def _give_up(self, seconds: float) -> None:
        self._late_after_s = seconds
        if self._end is not None:
            self._end()
        elif self._process is not None:
            self._process.kill()
        else:
            kill_jvm(waits=False)

    def _loss(self, error: Exception) -> str | None:
        """Say what has become of the JVM; None: it runs, and the error is about something else."""
        if self._late_after_s is not None:
            return self._late()
        is_unreachable = is_lost_connection(error)
        code = self._exit_code(_ENDS_S if is_unreachable else 0)
        if code is None:
            if not (is_unreachable or jvm_has_ended()):
                return None
            return "Spark's JVM ended, or closed its connection, while a session started in it.\n  Start the job again"
        if code < 0:
            return (
                f"Spark's JVM was killed while it started (signal {-code}: {signal.strsignal(-code)}), as the kernel "
                "does when memory runs out.\n"
                "  Free memory, or set a smaller spark.driver.memory, and start the job again"
            )
        return (
            f"Spark's JVM ended with exit code {code} while it started.\n"
            "  What it has printed says why. Check JAVA_HOME and the settings spark.driver.*"
        )

    def _exit_code(self, within_s: float) -> int | None:
        """That of the JVM; None: it runs, or was not started here."""
        if self._process is None:
            return None
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return None

    def _late(self) -> str:
        return (
            f"Spark's JVM did not start within {self._late_after_s:g} s, and was ended.\n"
            "  It was stopped, or the machine has too much to do: look at its load, and start the job again, or raise "
            "penstock.spark.start-timeout"
        )


def launch_jvm(settings: Mapping[str, str], start: JvmStart) -> None:
    """Start the JVM of this process with these settings of Spark, if it has none. Raises what PySpark raises."""
    from pyspark import SparkContext

    if SparkContext._gateway is None:
        ensure: Any = SparkContext._ensure_initialized
        ensure(gateway=start.launch(settings))


class StartedJvm:
    """A JVM without a Spark context, for other processes. `settings`: those of Spark that it starts with.

    Raises SparkLostError if it ends, or takes too long.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        start = JvmStart()
        try:
            with start.within(START_S):
                self._gateway = start.launch(settings)
        except Exception:
            start.kill()
            raise
        parameters = self._gateway.java_parameters
        self.port: int = parameters.port
        self.secret: str = parameters.auth_token
        self.pid: int = self._gateway.proc.pid

    def stop_context(self) -> None:
        """Stop the Spark context, if there is one. Raises what Py4J raises."""
        spark = self._gateway.jvm.org.apache.spark
        active = getattr(getattr(spark, "SparkContext$"), "MODULE$").getActive()
        if active.isDefined():
            active.get().stop()
        spark.sql.classic.SparkSession.clearDefaultSession()

    def end(self) -> None:
        """End it, with what runs in it."""
        process = self._gateway.proc
        process.stdin.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
