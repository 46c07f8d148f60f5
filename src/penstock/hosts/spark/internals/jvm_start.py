"""Start JVMs by PySpark, with a timeout: PySpark waits forever for a JVM that is suspended or exits with code 0."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from penstock.common.errors import SparkLostError
from penstock.hosts.spark.internals.jvm import is_lost_connection, jvm_has_ended, kill_jvm, quiet_pyspark

START_TIMEOUT_S = 120.0
"""Timeout for the start of a JVM, and for the start of a context in it (seconds). Each usually takes 5 s, and 40 s on a
machine with ten times the work that it can do."""
_EXIT_TIMEOUT_S = 10.0
_END_DELAY_MAX_S = 2.0
"""A killed process refuses connections up to this long before it has ended (seconds)."""
_LAUNCH_LOCK = threading.Lock()


class _Process(subprocess.Popen[bytes]):
    """Report the exit code 0 as 1: PySpark waits until the JVM has written its port, or `poll` returns another code."""

    def poll(self) -> int | None:
        code = super().poll()
        return 1 if code == 0 else code


class _Conf:
    """Give PySpark's launcher the settings. A SparkConf would need the JVM that the launcher is about to start."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings

    def getAll(self) -> list[tuple[str, str]]:  # noqa: N802
        return list(self._settings.items())


class JvmStart:
    """Limit the time of one start of a JVM, or of a context in a JVM.

    `end`: called to end the JVM if another process has started it.
    """

    def __init__(self, end: Callable[[], object] | None = None) -> None:
        self._end = end
        self._process: _Process | None = None
        self._timed_out_after_s: float | None = None

    @contextlib.contextmanager
    def within(self, seconds: float | None) -> Iterator[None]:
        """End the JVM if the block takes longer, so that calls into it fail. None: there is no limit.

        Raises SparkLostError if the JVM ends, for this or another reason.
        """
        timer = threading.Timer(seconds, self._give_up, [seconds]) if seconds is not None else None
        if timer is not None:
            timer.daemon = True
            timer.name = "penstock-jvm-start"
            timer.start()
        try:
            yield
        except Exception as error:
            if (text := self._cause_of_loss(error)) is None:
                raise
            raise SparkLostError(text) from error
        finally:
            if timer is not None:
                timer.cancel()
        if self._timed_out_after_s is not None:
            raise SparkLostError(self._timeout_message())

    def launch(self, settings: Mapping[str, str]) -> Any:
        """Start the JVM with these settings of Spark, or connect to the JVM that the environment names.

        Returns its Py4J gateway. Raises what PySpark raises; call `kill` then, as the JVM may have started.
        """
        from pyspark import java_gateway

        quiet_pyspark()
        module: Any = java_gateway
        with _LAUNCH_LOCK:
            popen, module.Popen = module.Popen, self._popen
            try:
                return module.launch_gateway(_Conf(settings))
            finally:
                module.Popen = popen

    def kill(self) -> None:
        """Kill the JVM if this object has started it, and wait for its end. Raises nothing."""
        if self._process is not None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                self._process.kill()
                self._process.wait(_END_DELAY_MAX_S)

    def _popen(self, *arguments: Any, **options: Any) -> _Process:
        self._process = _Process(*arguments, **options)
        return self._process

    def _give_up(self, seconds: float) -> None:
        self._timed_out_after_s = seconds
        if self._end is not None:
            self._end()
        elif self._process is not None:
            self._process.kill()
        else:
            kill_jvm(wait=False)

    def _cause_of_loss(self, error: Exception) -> str | None:
        """Return a message that says how the JVM ended; None if it runs, and the error has another cause."""
        if self._timed_out_after_s is not None:
            return self._timeout_message()
        is_unreachable = is_lost_connection(error)
        code = self._exit_code(_END_DELAY_MAX_S if is_unreachable else 0)
        if code is None:
            if not (is_unreachable or jvm_has_ended()):
                return None
            return "Spark's JVM ended, or closed its connection, while it started a session.\n  Start the job again"
        if code < 0:
            return (
                f"Spark's JVM was killed while it started (signal {-code}: {signal.strsignal(-code)}), as the kernel "
                "does when memory runs out.\n"
                "  Free memory, or set a smaller spark.driver.memory, and start the job again"
            )
        return (
            f"Spark's JVM ended with exit code {code} while it started.\n"
            "  Its output says why. Check JAVA_HOME and the settings spark.driver.*"
        )

    def _exit_code(self, within_s: float) -> int | None:
        """Return the exit code of the JVM; None if it runs, or if this object has not started it."""
        if self._process is None:
            return None
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return None

    def _timeout_message(self) -> str:
        return (
            f"Spark's JVM did not start within {self._timed_out_after_s:g} s, and was ended.\n"
            "  It was suspended, or the machine is overloaded: check its load, and start the job again, or raise "
            "penstock.spark.start-timeout"
        )


def launch_jvm(settings: Mapping[str, str], start: JvmStart) -> None:
    """Start a JVM for this process with these settings of Spark, unless there is one. Raises what PySpark raises."""
    from pyspark import SparkContext

    if SparkContext._gateway is None:
        ensure: Any = SparkContext._ensure_initialized
        ensure(gateway=start.launch(settings))


class StartedJvm:
    """Start a JVM without a Spark context, for other processes. `settings`: Spark's settings for its start.

    Raises SparkLostError if it ends, or does not start in time.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        start = JvmStart()
        try:
            with start.within(START_TIMEOUT_S):
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
        """End the JVM, and all that runs in it."""
        process = self._gateway.proc
        process.stdin.close()
        try:
            process.wait(_EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
