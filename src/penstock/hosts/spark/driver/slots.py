"""The slots of a session: count them, check that a job fits, and wait until they have registered.

A session on a local master has all its slots from the start. On a cluster, executors register some time after the
application has requested them, later if other applications hold the machines, and a lost one may be replaced.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.common.configuration import options
from penstock.common.errors import MasterUnreachableError, NotEnoughSlotsError
from penstock.hosts.spark.driver.held_slots import HELD_SLOTS
from penstock.hosts.spark.driver.standalone_master import PREFIX, is_reachable, slot_holders
from penstock.hosts.spark.internals.jvm import concurrent_tasks, is_alive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_S = 0.1
_WARNING_DELAY_S = 5.0
_PAGE_PORT = "8080"

_log = logging.getLogger(__name__)


def max_slots(session: SparkSession) -> int | None:
    """Return how many tasks the session can run concurrently by its settings, or None if they set no limit."""
    master = str(session.sparkContext.master)
    conf = session.sparkContext.getConf()
    if master.startswith("local["):
        return session.sparkContext.defaultParallelism
    if master.startswith("local-cluster["):
        workers, cores, _ = master[len("local-cluster[") : -1].split(",")
        return int(workers) * int(cores)
    cpus = int(conf.get("spark.task.cpus", "1"))
    if master.startswith(PREFIX):
        cores_max = conf.get("spark.cores.max")
        return int(cores_max) // cpus if cores_max else None
    instances = conf.get("spark.executor.instances")
    return int(instances) * (int(conf.get("spark.executor.cores", "1")) // cpus) if instances else None


def fits(session: SparkSession, slots: int) -> bool:
    """Return whether a job fits that needs `slots` slots in addition to the running jobs of this process.

    Counts executors that have not registered yet.
    """
    limit = max_slots(session)
    return limit is None or limit - HELD_SLOTS.total >= slots


def available_slots(session: SparkSession, job_id: str) -> int:
    """Return how many slots a job can have now, including those that it holds."""
    held_by_others = HELD_SLOTS.held_by_others(job_id)
    if HELD_SLOTS.shared is not None:
        return HELD_SLOTS.shared.free(HELD_SLOTS.total) + HELD_SLOTS.total - held_by_others
    return max(0, _count(session, concurrent_tasks) - held_by_others)


def check_slots(session: SparkSession, slots: int) -> None:
    """Raise NotEnoughSlotsError if the job will not fit even when all executors have registered."""
    if fits(session, slots):
        return
    master, total = str(session.sparkContext.master), HELD_SLOTS.total
    held = f", of which other jobs of this process hold {total}: {HELD_SLOTS}" if total else ""
    raise NotEnoughSlotsError(
        f"this job needs {slots} slots at once, Spark's {master} has {max_slots(session)}{held}.\n"
        f"  Do one of: a lower parallelism (env.set_parallelism, penstock run -p) · {_more(master, total + slots)} "
        f"from the first job on · execution.runtime-mode: BATCH (if all sources are bounded){' · wait' if held else ''}"
    )


def _more(master: str, slots: int) -> str:
    """Return the setting with which Spark has that many slots."""
    if master.startswith("local"):
        return f"spark.master: local[{slots}]"
    if master.startswith(PREFIX):
        return f"spark.cores.max: {slots}"
    return "more of spark.executor.instances × spark.executor.cores"


def wait_for_slots(
    session: SparkSession,
    job_id: str,
    slots: int,
    timeout_ms: int,
    *,
    registered: Callable[[SparkSession], int] = concurrent_tasks,
) -> None:
    """Wait until executors with slots for this job, and for earlier jobs of this process, have registered.

    `registered`: returns the number of slots of registered executors. Raises NotEnoughSlotsError after `timeout_ms`,
    with the applications that hold the slots; MasterUnreachableError if Spark ends the application because its master
    does not answer.
    """
    if str(session.sparkContext.master).startswith("local["):
        return
    started_s = time.monotonic()
    has_warned = False
    while (count := _count(session, registered)) < (needed := HELD_SLOTS.held_before(job_id) + slots):
        waited_s = time.monotonic() - started_s
        if waited_s * 1000 >= timeout_ms:
            raise NotEnoughSlotsError(
                _too_few_text(session, slots=slots, needed=needed, count=count, waited_s=waited_s)
            )
        if waited_s >= _WARNING_DELAY_S and not has_warned:
            has_warned = True
            _log.warning("waiting for slots: %s", _numbers_text(session, needed, count))
        time.sleep(_POLL_S)


def check_registered(
    session: SparkSession, job_id: str, slots: int, registered: Callable[[SparkSession], int] = concurrent_tasks
) -> None:
    """Raise NotEnoughSlotsError unless all slots of this job and of earlier ones have registered.

    Spark admits a query if its capacity is large enough, whether or not slots are free: the second of two queries would
    start only some of its tasks, and wait forever.
    """
    wait_for_slots(session, job_id, slots, timeout_ms=0, registered=registered)


def _count(session: SparkSession, registered: Callable[[SparkSession], int]) -> int:
    try:
        return registered(session)
    except Exception:
        if is_alive(session):
            raise
    raise MasterUnreachableError(
        f"Spark has ended the application while it waited for executors: {session.sparkContext.master} has removed it, "
        "or has not answered for a minute"
    )


def _numbers_text(session: SparkSession, needed: int, count: int) -> str:
    master = str(session.sparkContext.master)
    text = f"{master} has given {count} of {needed} to this application"
    page_port = session.sparkContext.getConf().get("spark.master.ui.port", _PAGE_PORT)
    details = slot_holders(master, page_port) if master.startswith(PREFIX) else ""
    if master.startswith(PREFIX) and not details and not is_reachable(master):
        details = "The master does not answer, so lost executors are not replaced"
    return f"{text}. {details}" if details else text


def _too_few_text(session: SparkSession, *, slots: int, needed: int, count: int, waited_s: float) -> str:
    held = needed - slots
    others = f", in addition to {held} of other jobs of this process," if held else ""
    after = f"after {waited_s:.0f} s " if waited_s >= 1 else ""
    return (
        f"this job needs {slots} slots at once{others} and {after}"
        f"{_numbers_text(session, needed, count)}.\n"
        "  Do one of: a lower parallelism (env.set_parallelism, penstock run -p) · more machines, or less memory for "
        "each executor (spark.executor.memory) · wait until other applications have ended: raise "
        f"{options.SLOT_REQUEST_TIMEOUT.key}, which limits the wait of a job"
    )
