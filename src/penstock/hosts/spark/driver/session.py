"""Spark sessions: start one with the settings that jobs need, or check one that the user has started.

Several settings are fixed when the JVM starts (`internals/settings.py`), and the user's session must have them: with
Spark's defaults a record takes seconds. If it lacks any, the error lists them.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from penstock.common.configuration import Configuration, options
from penstock.common.errors import ConfigurationError, MasterUnreachableError, SessionLostError, SparkLostError
from penstock.common.text.quantities import as_size
from penstock.common.text.secrets import is_secret_name
from penstock.hosts.logs.settings import LogSettings
from penstock.hosts.spark.driver.class_archive import ClassArchive
from penstock.hosts.spark.driver.held_slots import HELD_SLOTS
from penstock.hosts.spark.driver.java import find_java, quiet_home
from penstock.hosts.spark.driver.jvm_lease import (
    DEFAULT_JAVA_OPTIONS,
    JvmRequest,
    LeasedJvm,
    environment_of_workers,
    lease_jvm,
)
from penstock.hosts.spark.driver.jvm_log import OPTIONS_OF_LOG_FILE, JvmLog
from penstock.hosts.spark.driver.slots import check_slots, fits
from penstock.hosts.spark.driver.standalone_master import PREFIX, reach
from penstock.hosts.spark.internals.jvm import (
    adopt,
    forget_jvm,
    is_alive,
    jvm_has_ended,
    jvm_runs,
    kill_jvm,
    quiet_pyspark,
    stop_and_end_jvm,
    stop_and_kill_jvm,
    was_stopped_by_spark,
)
from penstock.hosts.spark.internals.jvm_start import START_TIMEOUT_S, JvmStart, launch_jvm
from penstock.hosts.spark.internals.settings import FIXED_AT_START, MEMORY_RELEASE_OPTIONS, PER_QUERY, missing_settings
from penstock.hosts.spark.internals.version import SUPPORTED, check_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextlib.contextmanager
def deferred_interrupts() -> Iterator[Callable[[], object]]:
    """Raise KeyboardInterrupt only at the end of the block: a JVM that PySpark does not know yet would run forever.

    A new SparkContext replaces the handler by one that cancels Spark's jobs, in the middle of any call into the JVM.
    Call the object that this yields to undo that. The block's end restores the original handler.
    """
    original = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(original):
        yield lambda: None
        return
    interrupted = False

    def defer(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        try:
            original(number, frame)
        except KeyboardInterrupt:
            interrupted = True

    signal.signal(signal.SIGINT, defer)
    try:
        yield lambda: signal.signal(signal.SIGINT, defer)
    finally:
        signal.signal(signal.SIGINT, original)
    if interrupted:
        raise KeyboardInterrupt


_LOOPBACK = "127.0.0.1"
_DEFAULTS = {
    # Spark forks workers from a process that has imported the modules they need.
    "spark.python.daemon.module": "penstock.hosts.spark.worker.daemon",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "4g",
    "spark.executor.defaultJavaOptions": MEMORY_RELEASE_OPTIONS,
    "spark.speculation": "false",
    "spark.dynamicAllocation.enabled": "false",
    # On a local master only this machine needs to reach the driver.
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
}
# Slots of a local master are threads that mostly wait. With this many, the session is large enough for the next job.
_LOCAL_SLOTS_MIN = 64
_TASK_ATTEMPTS_MAX = 4
_PLANNING_MODULES = ("pandas", "pyspark.sql.pandas.functions", "pyspark.sql.functions")
KEEP_SWITCH = "PENSTOCK_KEEP_SESSION"
"""The environment variable that sets penstock.spark.keep-session for all programs."""
_JVM_SETTINGS = ("spark.driver.", "spark.jars", "spark.submit.")
"""Prefixes of settings that make a JVM unsuitable for other programs."""
_FETCHED = ("spark.jars", "spark.files", "spark.archives", "spark.submit.pyFiles", "spark.jars.repositories")
_PACKAGES = "spark.jars.packages"
_END_TIMEOUT_S = 10.0
started_session: SparkSession | None = None
"""The session that penstock has started, if any."""
_interrupted = False


def session_for(
    slots: int,
    pipelined: bool,
    configuration: Configuration,
    given: SparkSession | None,
    logs: LogSettings | None = None,
) -> SparkSession:
    """Return a session with at least `slots` slots: `given`, otherwise the active one, otherwise a new one.

    Replaces a session that penstock has started if it is too small, or if `configuration` has settings of Spark
    (`spark.*`) with which it was not started, unless another job uses it. Never stops or changes a session of the
    user's. Call this with the lock of `HELD_SLOTS`, and hold the job's slots before you release it. `logs`: where the
    JVM of a new session writes its log.

    Raises ConfigurationError if PySpark has an unsupported version, if the user's session lacks settings that a
    `pipelined` job needs, or if another job uses penstock's session, which lacks settings of this job;
    NotEnoughSlotsError if too few slots are free, on a cluster if the job can never fit; MasterUnreachableError;
    SessionLostError if the JVM of the user's session has ended.
    """
    check_version()
    quiet_pyspark()
    if not _jvm_answers():
        if started_session is None or (given is not None and given is not started_session):
            raise session_lost(JVM_LOST)
        forget_started_session()
        given = None
    from pyspark.sql import SparkSession

    settings = spark_settings(configuration)
    # The active session is that of this thread; another one may have started ours.
    running = given or SparkSession.getActiveSession() or started_session
    if running is not None and running is started_session and is_alive(running):
        is_suitable = _has_settings(running, settings)
        if is_suitable and fits(running, slots):
            return running
        if HELD_SLOTS.is_used:
            if not is_suitable:
                raise _used_with_other_settings(running, settings)
            check_slots(running, slots)
        running.stop()
        running = None
    if running is None or not is_alive(running):
        keep = keeps_session(configuration, os.environ)
        timeout_s = start_timeout_s(configuration)
        running = start_session(slots + HELD_SLOTS.total, settings, logs=logs, keep=keep, timeout_s=timeout_s)
    elif pipelined:
        _check_settings(running)
    check_slots(running, slots)
    return running


def keeps_session(configuration: Configuration, environ: Mapping[str, str]) -> bool:
    """Return whether the JVM is kept for other programs: as configured, else where a person waits for the next start.

    A person is at a terminal, or in a notebook. JVMs are kept on Linux only.
    """
    chosen = configuration.get(options.KEEP_SESSION)
    if chosen is None and environ.get(KEEP_SWITCH) in ("true", "false"):
        chosen = environ[KEEP_SWITCH] == "true"
    if chosen is not None:
        return chosen
    is_terminal = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
    return hasattr(os, "pidfd_open") and (is_terminal or "ipykernel" in sys.modules)


def _jvm_answers() -> bool:
    """Return False if this process had a JVM, and it has ended. Raises what PySpark raises if it does not answer."""
    from pyspark.sql import SparkSession

    if jvm_has_ended():
        return False
    try:
        SparkSession.getActiveSession()
    except Exception:
        if jvm_has_ended(_END_TIMEOUT_S):
            return False
        raise
    return True


JVM_LOST = "has lost its JVM, which was killed or ran out of memory"


def session_lost(how: str) -> SessionLostError:
    """Return the error of a job whose session the user has started, and which is lost. `how`: a verb phrase."""
    return SessionLostError(
        f"the SparkSession of this job {how}, and penstock does not replace a session that it has not started. Start "
        "a session, and start the job again from its latest checkpoint: -s latest"
    )


def spark_settings(configuration: Configuration) -> dict[str, str]:
    """Return Spark's settings in a configuration."""
    return {key: value for key, value in configuration.to_dict().items() if key.startswith("spark.")}


def start_timeout_s(configuration: Configuration) -> float:
    """Return the timeout for the start of a JVM, and for the start of a context in it (seconds)."""
    return configuration.get(options.SPARK_START_TIMEOUT) / 1000


def stop_started_session() -> None:
    """Stop the session that `session_for` has started, if any."""
    global started_session
    if started_session is not None:
        started_session.stop()
        started_session = None


def forget_started_session() -> None:
    """Make the next session start a new JVM, after the JVM of the started session has ended."""
    global started_session
    forget_jvm()
    started_session = None


def start_session(
    slots: int,
    settings: dict[str, str],
    *,
    logs: LogSettings | None = None,
    keep: bool = False,
    timeout_s: float = START_TIMEOUT_S,
) -> SparkSession:
    """Start a session with at least `slots` slots, and set `started_session`.

    On a cluster it requests the slots, which register later: see `wait_for_slots`. `logs`: where the JVM writes its
    log. `keep`: lease a JVM that other programs use, too, unless `settings` make it unsuitable for them. After a
    failure neither a session nor a JVM of this start remains. Raises MasterUnreachableError if the master of a
    standalone cluster does not answer, SparkLostError if the JVM ends or does not start in time, and what PySpark
    raises.
    """
    global started_session
    master = settings.get("spark.master", "local")
    settings = {**cluster_settings(master, slots, settings), **settings}
    if started_session is not None and was_stopped_by_spark(started_session):
        # Otherwise PySpark would return the stopped session again.
        started_session.stop()
    started_session = None
    found_java = find_java(os.environ)
    java_home = quiet_home(found_java, os.environ)
    _set_python(settings)
    reuses_jvm = jvm_runs()
    # With classes or options of the user's, neither the archive nor the JVM would fit another program.
    is_shareable = not reuses_jvm and not any(key.startswith(_JVM_SETTINGS) for key in settings)
    keep = keep and is_shareable and master.startswith("local")
    archive = ClassArchive(found_java, os.environ, may_create=is_shareable)
    leased = _lease(java_home, archive) if keep else None
    log = JvmLog(logs, reuses_jvm, leased.log if leased else None)
    # Set the default options: a program's spark.driver.extraJavaOptions come after them, and override them.
    java_options = {DEFAULT_JAVA_OPTIONS: f"{log.java_options} {archive.options} {MEMORY_RELEASE_OPTIONS}"}
    merged = _merged(master, slots, {**log.settings, **java_options, **settings})
    # Planning needs these modules next. Import them, which takes a third of a second, while the JVM starts.
    threading.Thread(target=_import, args=(_PLANNING_MODULES,), name="penstock-imports", daemon=True).start()
    environment = leased.environment if leased else log.environment
    start = JvmStart(leased.discard if leased else None)
    with _environment({"JAVA_HOME": str(java_home), **environment}), deferred_interrupts() as defer_interrupts:
        try:
            started = _start_context(merged, leased, start, defer_interrupts=defer_interrupts, timeout_s=timeout_s)
        except Exception as error:
            has_ended = isinstance(error, SparkLostError)
            start.kill()
            archive.abandon(kill_jvm)
            _clean_up(leased, reuses_jvm and not has_ended)
            if not master.startswith(PREFIX) or has_ended:
                raise
            raise _rejected(master, error) from None
        started_session = started
        # Do this inside of the block, whose end may raise KeyboardInterrupt.
        if leased is not None:
            _use(leased, started_session)
        if archive.is_being_created:
            atexit.register(_end_with_archive, archive, started_session)
    if archive.is_missing:
        archive.create_in_background()
    return started_session


def _start_context(
    merged: dict[str, str],
    leased: LeasedJvm | None,
    start: JvmStart,
    *,
    defer_interrupts: Callable[[], object],
    timeout_s: float,
) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    with start.within(None if _fetches(merged) else timeout_s):
        # PySpark passes the settings on the JVM's command line, which all users of the machine can see.
        launch_jvm(_without_secrets(merged), start)
        if leased is not None:
            # Before any call into the JVM, whose failure is explained by the state of this process.
            adopt(leased.process)
    # Other cluster managers let an application wait for resources without a limit.
    with start.within(timeout_s if merged["spark.master"].startswith(("local", PREFIX)) else None):
        SparkContext.getOrCreate(SparkConf().setAll(list(merged.items())))
        defer_interrupts()
        return SparkSession.builder.config(map=dict(merged)).getOrCreate()


def _set_python(settings: Mapping[str, str]) -> None:
    # Otherwise workers run the first python3 on the PATH. PySpark reads this only from the environment.
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    os.environ["PYSPARK_PYTHON"] = settings.get("spark.pyspark.python", python)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def _clean_up(leased: LeasedJvm | None, keep_jvm: bool) -> None:
    """End the JVM of a failed start. `keep_jvm`: it has been running before the start."""
    if not keep_jvm:
        kill_jvm()
        forget_jvm()
    if leased is not None:
        leased.discard()


def program_interrupted() -> None:
    """Note that Ctrl-C ends this program, so that it does not wait for the class archive."""
    global _interrupted
    _interrupted = True


def _end_with_archive(archive: ClassArchive, session: SparkSession) -> None:
    # `last_type` is set if the interpreter has printed the error; the command `penstock` calls `program_interrupted`.
    if _interrupted or getattr(sys, "last_type", None) is KeyboardInterrupt:
        archive.abandon(partial(stop_and_kill_jvm, session))
    else:
        archive.finish(partial(stop_and_end_jvm, session))


def _fetches(settings: Mapping[str, str]) -> bool:
    """Return whether the JVM fetches files at its start, which may take long."""
    urls = any("://" in settings.get(key, "") for key in _FETCHED)
    return urls or _PACKAGES in settings or "PYSPARK_SUBMIT_ARGS" in os.environ


def _without_secrets(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings without secrets, unless the JVM needs them to fetch files before it has a context."""
    if any("://" in settings.get(key, "") for key in _FETCHED):
        return dict(settings)
    return {key: value for key, value in settings.items() if not is_secret_name(key)}


def _merged(master: str, slots: int, settings: Mapping[str, str]) -> dict[str, str]:
    """Return all settings of a session. `settings`: the user's settings, and those of this start."""
    # The second number is the maximum number of attempts of a task: in batched mode, Spark then runs a lost task again.
    local = f"local[{max(slots, _LOCAL_SLOTS_MIN)},{_TASK_ATTEMPTS_MAX}]"
    defaults = {"spark.master": local, "spark.app.name": "penstock", **_DEFAULTS}
    merged = {**defaults, **FIXED_AT_START, **PER_QUERY, **settings}
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    else:
        for key in ("spark.driver.host", "spark.driver.bindAddress"):
            if key not in settings:
                del merged[key]
    return merged


def _lease(java_home: Path, archive: ClassArchive) -> LeasedJvm | None:
    java_options = {DEFAULT_JAVA_OPTIONS: f"{OPTIONS_OF_LOG_FILE} {MEMORY_RELEASE_OPTIONS}"}
    with deferred_interrupts():
        memory = {"spark.driver.memory": _DEFAULTS["spark.driver.memory"]}
        request = JvmRequest({**memory, **FIXED_AT_START, **java_options}, str(java_home), archive.options)
        return lease_jvm(request, os.environ)


def _rejected(master: str, error: Exception) -> MasterUnreachableError:
    return MasterUnreachableError(
        f"the master at {master} accepts connections, but has not accepted this application. Check that it is Spark "
        f"{SUPPORTED}, like PySpark here. Spark says: {_java_message(error)}"
    )


def _use(leased: LeasedJvm, session: SparkSession) -> None:
    session.sparkContext.environment.update(environment_of_workers(os.environ))
    atexit.register(_release, leased)


def _release(leased: LeasedJvm) -> None:
    # A job that still runs would disturb the next program. The keeper ends a JVM that is not returned.
    if not HELD_SLOTS.is_used:
        leased.release()
        if leased.is_new and sys.stderr is not None and sys.stderr.isatty():
            size = f", {as_size(leased.process.resident_bytes())}" if leased.process.resident_bytes() else ""
            print(
                f"penstock: Spark is kept for ten minutes{size}, so that the next program starts in two seconds. "
                f"penstock end-sessions ends it, {KEEP_SWITCH}=false keeps none",
                file=sys.stderr,
            )


def _import(names: Iterable[str]) -> None:
    # A failed import raises again where the module is needed.
    with contextlib.suppress(Exception):
        for name in names:
            importlib.import_module(name)


def _java_message(error: Exception) -> str:
    """Return the message of the JVM's exception, without Py4J's text."""
    lines = str(error).strip().splitlines() or [""]
    return next((line.removeprefix(": ") for line in lines if line.startswith(": ")), lines[0])


def cluster_settings(master: str, slots: int, settings: dict[str, str]) -> dict[str, str]:
    """Return the number of slots that a session requests from a cluster, and the driver's address, as Spark's settings.

    `settings`: the user's, which have priority. Empty for a local master. Raises MasterUnreachableError if no master of
    a standalone cluster answers.
    """
    if master.startswith("local"):
        return {}
    name = {"spark.app.name": f"penstock ({Path(sys.argv[0]).name or 'interactive'})"}
    cores = slots * int(settings.get("spark.task.cpus", "1"))
    if master.startswith(PREFIX):
        # By default an application takes all cores of such a cluster, and the next one waits for its end.
        return {**name, "spark.driver.host": reach(master), "spark.cores.max": str(cores)}
    instances = -(-cores // int(settings.get("spark.executor.cores", "1")))
    return {**name, "spark.executor.instances": str(instances)}


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    previous = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in previous.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _has_settings(session: SparkSession, settings: dict[str, str]) -> bool:
    conf = session.sparkContext.getConf()
    return all(conf.get(key) == value for key, value in settings.items())


def _check_settings(session: SparkSession) -> None:
    conf = session.sparkContext.getConf()
    missing = missing_settings(lambda key, default: conf.get(key, default))
    if missing:
        lines = "\n".join(f"  {key}={value}" for key, value in missing.items())
        raise ConfigurationError(
            "the running SparkSession lacks settings that cannot change after its start; a pipelined job would take "
            "seconds per record. Start it with these, or let penstock start one, or run the job in BATCH mode:\n"
            f"{lines}"
        )


def _used_with_other_settings(session: SparkSession, settings: dict[str, str]) -> ConfigurationError:
    conf = session.sparkContext.getConf()
    lines = "\n".join(f"  {key}={value}" for key, value in settings.items() if conf.get(key) != value)
    return ConfigurationError(
        f"other jobs of this process use a SparkSession that was started without these settings: {HELD_SLOTS}. Set "
        f"them for the first job, wait for the end of those jobs, or run this job in another process:\n{lines}"
    )


def session_is_local(session: SparkSession) -> bool:
    """Return whether all executors are on this machine."""
    return str(session.sparkContext.master).startswith("local")


def control_host(session: SparkSession) -> str:
    """Return the address of the control port: the driver's address for executors, or loopback on a local master."""
    if session_is_local(session):
        return "127.0.0.1"
    return str(session.sparkContext.getConf().get("spark.driver.host", "127.0.0.1"))
