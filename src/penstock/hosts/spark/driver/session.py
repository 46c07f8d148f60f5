"""Spark sessions: one that penstock starts with the right settings, or one that the user has started, checked.

Several settings are fixed when the JVM starts (`internals/settings.py`). A session of the user's must have them
already; if it lacks any, it is refused with a list of them, since with Spark's defaults a record takes seconds.
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
from penstock.common.text.secrets import is_secret_name
from penstock.hosts.logs.settings import LogSettings
from penstock.hosts.spark.driver.class_archive import ClassArchive
from penstock.hosts.spark.driver.held_slots import HELD
from penstock.hosts.spark.driver.java import find_java, quiet_home
from penstock.hosts.spark.driver.jvm_log import OPTIONS_OF_LOG_FILE, JvmLog
from penstock.hosts.spark.driver.kept_jvm import KeptJvm, Wanted, environment_of_workers, lease
from penstock.hosts.spark.driver.slots import check_slots, fits
from penstock.hosts.spark.driver.standalone_master import PREFIX, reach
from penstock.hosts.spark.internals.jvm import (
    adopt,
    forget_jvm,
    is_alive,
    jvm_has_ended,
    jvm_runs,
    kill_jvm,
    quiet_py4j,
    stop_and_end_jvm,
    stop_and_kill_jvm,
    was_stopped_by_spark,
)
from penstock.hosts.spark.internals.jvm_start import START_S, JvmStart, launch_jvm
from penstock.hosts.spark.internals.settings import FIXED_AT_START, GIVES_MEMORY_BACK, PER_QUERY, missing_settings
from penstock.hosts.spark.internals.version import SUPPORTED, check_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Ctrl-C while Spark starts: it waits until the JVM is known.


@contextlib.contextmanager
def interrupts_wait() -> Iterator[Callable[[], object]]:
    """Hold KeyboardInterrupt back until the block ends: a JVM that PySpark does not know yet would stay for ever.

    A SparkContext sets a handler of its own as it is made, which cancels Spark's jobs, amid whatever the program asks
    the JVM then. To call what is given here ends that one's rule; after the block the handler is the one from before.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield lambda: None
        return
    interrupted = False

    def wait(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        try:
            before(number, frame)
        except KeyboardInterrupt:
            interrupted = True

    signal.signal(signal.SIGINT, wait)
    try:
        yield lambda: signal.signal(signal.SIGINT, wait)
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted:
        raise KeyboardInterrupt


_LOOPBACK = "127.0.0.1"
_OWN = {
    # Workers are forked from a process that has imported the modules they need.
    "spark.python.daemon.module": "penstock.hosts.spark.worker.daemon",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "4g",
    "spark.executor.defaultJavaOptions": GIVES_MEMORY_BACK,
    "spark.speculation": "false",
    "spark.dynamicAllocation.enabled": "false",
    # On a local master nothing but this machine needs to reach the driver.
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
}
# Slots of a local master are threads that mostly wait: with this many, the next larger job finds the session suitable.
_LOCAL_SLOTS_LEAST = 64
_TASK_TRIES = 4
_FOR_PLANNING = ("pandas", "pyspark.sql.pandas.functions", "pyspark.sql.functions")
KEEP_SWITCH = "PENSTOCK_KEEP_SESSION"
"""The environment variable that does for all programs what penstock.spark.keep-session does for one."""
_DEFAULT_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
_OF_THE_JVM = ("spark.driver.", "spark.jars", "spark.submit.")
_FETCHED = ("spark.jars", "spark.files", "spark.archives", "spark.submit.pyFiles", "spark.jars.repositories")
_PACKAGES = "spark.jars.packages"
_ENDS_SECONDS = 10.0
own_session: SparkSession | None = None
"""The session that penstock has started, if any."""
_interrupted = False


def session_for(
    slots: int,
    pipelined: bool,
    configuration: Configuration,
    given: SparkSession | None,
    logs: LogSettings | None = None,
) -> SparkSession:
    """A session with at least `slots` slots: `given`, else the active one, else one that is started here.

    A session that was started here is stopped and replaced if it is too small, or if `configuration` has settings of
    Spark (`spark.*`) that it was not started with, unless another job uses it. One of the user's is never stopped or
    changed. Call it with the lock of `HELD`, and hold the job's slots before it is released. The JVM of one that is
    started writes its log where `logs` says.

    Raises ConfigurationError if PySpark has an unsupported version, if a `pipelined` job needs settings that the
    user's session lacks, or if another job uses a session without the settings that this one needs;
    NotEnoughSlotsError if too few slots are free, or on a cluster could ever be; MasterUnreachableError;
    SessionLostError if the JVM of the user's session has ended.
    """
    check_version()
    quiet_py4j()
    if not _jvm_answers():
        if own_session is None or (given is not None and given is not own_session):
            raise lost(ENDED)
        forget_own_session()
        given = None
    from pyspark.sql import SparkSession

    settings = spark_settings(configuration)
    running = given or SparkSession.getActiveSession()
    if running is not None and running is own_session and is_alive(running):
        suits = _has(running, settings)
        if suits and fits(running, slots):
            return running
        if HELD.is_used:
            if not suits:
                raise _used_with_other_settings(running, settings)
            check_slots(running, slots)
        running.stop()
        running = None
    if running is None or not is_alive(running):
        keep = configuration.get(options.KEEP_SESSION) or os.environ.get(KEEP_SWITCH) == "true"
        running = start_session(slots + HELD.total, settings, logs, keep, start_timeout_s(configuration))
    elif pipelined:
        _check_settings(running)
    check_slots(running, slots)
    return running


def _jvm_answers() -> bool:
    """False: there was a JVM, and it has ended. Raises what PySpark raises if it runs and does not answer."""
    from pyspark.sql import SparkSession

    if jvm_has_ended():
        return False
    try:
        SparkSession.getActiveSession()
    except Exception:
        if jvm_has_ended(_ENDS_SECONDS):
            return False
        raise
    return True


ENDED = "has lost its JVM, which was killed or ran out of memory"


def lost(how: str) -> SessionLostError:
    """The error of a job whose session is the user's own, and is gone."""
    return SessionLostError(
        f"the SparkSession of this job {how}, and penstock starts none in its place. Start one, and the job again from "
        "its latest checkpoint: -s latest"
    )


def spark_settings(configuration: Configuration) -> dict[str, str]:
    """The settings of Spark in a configuration."""
    return {key: value for key, value in configuration.to_dict().items() if key.startswith("spark.")}


def start_timeout_s(configuration: Configuration) -> float:
    """How long the start of a JVM, and of a context in it, may take."""
    return configuration.get(options.SPARK_START_TIMEOUT) / 1000


def stop_own_session() -> None:
    """Stop the session that `session_for` has started, if any."""
    global own_session
    if own_session is not None:
        own_session.stop()
        own_session = None


def forget_own_session() -> None:
    """Let the next session have a new JVM: that of penstock's own one has ended."""
    global own_session
    forget_jvm()
    own_session = None


def start_session(
    slots: int,
    settings: dict[str, str],
    logs: LogSettings | None = None,
    keep: bool = False,
    timeout_s: float = START_S,
) -> SparkSession:
    """Start a session with at least `slots` slots, and remember it as penstock's own.

    On a cluster it asks for so many; they come later, see `wait_for_slots`. Its JVM writes its log where `logs` says.
    `keep`: the JVM may be one that other programs have used, and is kept for others, unless it has settings of its own.
    A start that fails leaves neither a session nor a JVM of its own, so the next one begins from nothing.
    Raises MasterUnreachableError if the master of a standalone cluster does not answer, SparkLostError if the JVM ends
    or takes too long, and what PySpark raises.
    """
    global own_session
    master = settings.get("spark.master", "local")
    settings = {**cluster_settings(master, slots, settings), **settings}
    if own_session is not None and was_stopped_by_spark(own_session):
        # PySpark would take it for one that runs.
        own_session.stop()
    # From here until it has started there is none.
    own_session = None
    found = find_java(os.environ)
    java = quiet_home(found, os.environ)
    _name_python(settings)
    one_more = jvm_runs()
    # With classes or options of the user's, neither the archive nor the JVM would fit another program.
    usual = not one_more and not any(key.startswith(_OF_THE_JVM) for key in settings)
    keep = keep and usual and master.startswith("local")
    archive = ClassArchive(found, os.environ, may_make=usual and not keep)
    kept = _kept_jvm(java, archive) if keep else None
    log = JvmLog(logs, one_more, kept.log if kept else None)
    # Of those that penstock has by default: a program's spark.driver.extraJavaOptions come after them, and win.
    java_options = {_DEFAULT_JAVA_OPTIONS: f"{log.java_options} {archive.options} {GIVES_MEMORY_BACK}"}
    merged = _merged(master, slots, {**log.settings, **java_options, **settings})
    # Planning needs these next. While the JVM starts this process only waits, and they take a third of a second.
    threading.Thread(target=_import, args=(_FOR_PLANNING,), name="penstock-imports", daemon=True).start()
    of_jvm = kept.environment if kept else log.environment
    start = JvmStart(kept.drop if kept else None)
    with _environment({"JAVA_HOME": str(java), **of_jvm}), interrupts_wait() as hold_interrupts:
        try:
            started = _started(merged, kept, start, hold_interrupts, timeout_s)
        except Exception as error:
            has_ended = isinstance(error, SparkLostError)
            start.kill()
            archive.abandon(kill_jvm)
            _clear(kept, one_more and not has_ended)
            if not master.startswith(PREFIX) or has_ended:
                raise
            raise _not_taken(master, error) from None
        own_session = started
        # Here: what is held back is raised as the block ends.
        if kept is not None:
            _use(kept, own_session)
        if archive.is_made:
            atexit.register(_end_with_archive, archive, own_session)
    return own_session


def _started(
    merged: dict[str, str],
    kept: KeptJvm | None,
    start: JvmStart,
    hold_interrupts: Callable[[], object],
    timeout_s: float,
) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    with start.within(None if _fetches(merged) else timeout_s):
        # PySpark gives the JVM what it starts with by its command line, which every user of the machine can see.
        launch_jvm(_seen_by_all(merged), start)
        if kept is not None:
            # At once: only its process shows that it has ended.
            adopt(kept.process)
    # Other managers of clusters let an application wait until there is room for it.
    with start.within(timeout_s if merged["spark.master"].startswith(("local", PREFIX)) else None):
        SparkContext.getOrCreate(SparkConf().setAll(list(merged.items())))
        hold_interrupts()
        return SparkSession.builder.config(map=dict(merged)).getOrCreate()


def _name_python(settings: Mapping[str, str]) -> None:
    # Else workers run the first python3 on the PATH. PySpark looks for it in the environment alone.
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    os.environ["PYSPARK_PYTHON"] = settings.get("spark.pyspark.python", python)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def _clear(kept: KeptJvm | None, stays: bool) -> None:
    """Remove what a failed start has left. `stays`: the JVM runs, and was there before."""
    if not stays:
        kill_jvm()
        forget_jvm()
    if kept is not None:
        kept.drop()


def program_interrupted() -> None:
    """Ctrl-C ends this program: it does not stay for the class archive."""
    global _interrupted
    _interrupted = True


def _end_with_archive(archive: ClassArchive, session: SparkSession) -> None:
    # What Python itself has ended the program with; the command `penstock` catches it, and says so.
    if _interrupted or getattr(sys, "last_type", None) is KeyboardInterrupt:
        archive.abandon(partial(stop_and_kill_jvm, session))
    else:
        archive.finish(partial(stop_and_end_jvm, session))


def _fetches(settings: Mapping[str, str]) -> bool:
    """Whether the JVM fetches files as it starts, which may take long."""
    urls = any("://" in settings.get(key, "") for key in _FETCHED)
    return urls or _PACKAGES in settings or "PYSPARK_SUBMIT_ARGS" in os.environ


def _seen_by_all(settings: Mapping[str, str]) -> dict[str, str]:
    """Those that the JVM starts with: without secrets, unless it fetches files with them before it has a context."""
    if any("://" in settings.get(key, "") for key in _FETCHED):
        return dict(settings)
    return {key: value for key, value in settings.items() if not is_secret_name(key)}


def _merged(master: str, slots: int, settings: Mapping[str, str]) -> dict[str, str]:
    """All settings of a session; `settings` are those of the user and of this start."""
    # The second number is how often a task is tried: as on a cluster, Spark reruns a lost task in batched mode.
    local = f"local[{max(slots, _LOCAL_SLOTS_LEAST)},{_TASK_TRIES}]"
    merged = {"spark.master": local, "spark.app.name": "penstock", **_OWN, **FIXED_AT_START, **PER_QUERY, **settings}
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    else:
        for key in ("spark.driver.host", "spark.driver.bindAddress"):
            if key not in settings:
                del merged[key]
    return merged


def _kept_jvm(java: Path, archive: ClassArchive) -> KeptJvm | None:
    options_of_java = {_DEFAULT_JAVA_OPTIONS: f"{OPTIONS_OF_LOG_FILE} {archive.options} {GIVES_MEMORY_BACK}"}
    with interrupts_wait():
        memory = {"spark.driver.memory": _OWN["spark.driver.memory"]}
        return lease(Wanted({**memory, **FIXED_AT_START, **options_of_java}, str(java)), os.environ)


def _not_taken(master: str, error: Exception) -> MasterUnreachableError:
    return MasterUnreachableError(
        f"the master at {master} accepts connections, but has not taken this application. Is it Spark {SUPPORTED}, as "
        f"PySpark is here? Spark says: {_of_java(error)}"
    )


def _use(kept: KeptJvm, session: SparkSession) -> None:
    session.sparkContext.environment.update(environment_of_workers(os.environ))
    atexit.register(_give_back, kept)


def _give_back(kept: KeptJvm) -> None:
    # A job that still runs would disturb those of the next program.
    if not HELD.is_used:
        kept.give_back()


def _import(names: Iterable[str]) -> None:
    # What fails is told where it is needed.
    with contextlib.suppress(Exception):
        for name in names:
            importlib.import_module(name)


def _of_java(error: Exception) -> str:
    """What the JVM says, without what Py4J says about it."""
    lines = str(error).strip().splitlines() or [""]
    return next((line.removeprefix(": ") for line in lines if line.startswith(": ")), lines[0])


def cluster_settings(master: str, slots: int, settings: dict[str, str]) -> dict[str, str]:
    """What a session on a cluster asks for, and where it is reached; `settings` of the user's come before it.

    Nothing for a local master. Raises MasterUnreachableError if no master of a standalone cluster answers.
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
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _has(session: SparkSession, settings: dict[str, str]) -> bool:
    conf = session.sparkContext.getConf()
    return all(conf.get(key) == value for key, value in settings.items())


def _check_settings(session: SparkSession) -> None:
    conf = session.sparkContext.getConf()
    missing = missing_settings(lambda key, default: conf.get(key, default))
    if missing:
        lines = "\n".join(f"  {key}={value}" for key, value in missing.items())
        raise ConfigurationError(
            "the running SparkSession lacks settings that are fixed when it starts; a pipelined job would take seconds "
            f"per record. Start it with these, or let penstock start one, or run the job in BATCH mode:\n{lines}"
        )


def _used_with_other_settings(session: SparkSession, settings: dict[str, str]) -> ConfigurationError:
    conf = session.sparkContext.getConf()
    lines = "\n".join(f"  {key}={value}" for key, value in settings.items() if conf.get(key) != value)
    return ConfigurationError(
        f"other jobs of this process use a SparkSession that was started without these settings: {HELD}. Give them to "
        f"the first job, wait for those jobs, or run this one in a process of its own:\n{lines}"
    )


def session_is_local(session: SparkSession) -> bool:
    """Whether all executors are on this machine."""
    return str(session.sparkContext.master).startswith("local")


def control_host(session: SparkSession) -> str:
    """The address for the control port: loopback on a local master, else the driver's address that executors know."""
    if session_is_local(session):
        return "127.0.0.1"
    return str(session.sparkContext.getConf().get("spark.driver.host", "127.0.0.1"))
