"""Slots of a session: how many it may have, how many it has, and the wait for those that come late.

On a local master all are there when the session is. On a cluster executors register some time after the application has
asked for them, later if others hold the machines, and one that is lost may be replaced.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.common.configuration import options
from penstock.common.errors import MasterUnreachableError, NotEnoughSlotsError
from penstock.hosts.spark.driver.held_slots import HELD
from penstock.hosts.spark.driver.standalone_master import PREFIX, answers, holders
from penstock.hosts.spark.internals.jvm import concurrent_tasks, is_alive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_S = 0.1
_SILENT_S = 5.0
_PAGE_PORT = "8080"

_log = logging.getLogger(__name__)


def slots_at_most(session: SparkSession) -> int | None:
    """How many tasks the session may ever run at once, as far as its settings say. None: as many as it is given."""
    master = str(session.sparkContext.master)
    conf = session.sparkContext.getConf()
    if master.startswith("local["):
        return session.sparkContext.defaultParallelism
    if master.startswith("local-cluster["):
        workers, cores, _ = master[len("local-cluster[") : -1].split(",")
        return int(workers) * int(cores)
    cpus = int(conf.get("spark.task.cpus", "1"))
    if master.startswith(PREFIX):
        most = conf.get("spark.cores.max")
        return int(most) // cpus if most else None
    instances = conf.get("spark.executor.instances")
    return int(instances) * (int(conf.get("spark.executor.cores", "1")) // cpus) if instances else None


def fits(session: SparkSession, slots: int) -> bool:
    """Whether a job of `slots` slots fits beside those that this process runs, once all executors are there."""
    most = slots_at_most(session)
    return most is None or most - HELD.total >= slots


def slots_for(session: SparkSession, job_id: str) -> int:
    """How many slots there are now for a job, those that it holds included, beside those of others."""
    if HELD.others is not None:
        return HELD.others.free(HELD.total) + HELD.total - HELD.beside(job_id)
    return max(0, _count(session, concurrent_tasks) - HELD.beside(job_id))


def check_slots(session: SparkSession, slots: int) -> None:
    """Raise NotEnoughSlotsError if the job will never fit."""
    if fits(session, slots):
        return
    master, total = str(session.sparkContext.master), HELD.total
    held = f", of which other jobs of this process hold {total}: {HELD}" if total else ""
    raise NotEnoughSlotsError(
        f"this job needs {slots} slots at once, Spark's {master} has {slots_at_most(session)}{held}.\n"
        f"  Do one of: a lower parallelism (env.set_parallelism, penstock run -p) · {_more(master, total + slots)} "
        f"from the first job on · execution.runtime-mode: BATCH (if all sources are bounded){' · wait' if held else ''}"
    )


def _more(master: str, slots: int) -> str:
    """The setting that brings so many."""
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
    registered: Callable[[SparkSession], int] = concurrent_tasks,
) -> None:
    """Wait until executors with slots for this job, and for the jobs of this process before it, have registered.

    `registered`: how many there are now. Raises NotEnoughSlotsError after `timeout_ms`, which says who has them;
    MasterUnreachableError if Spark ends the application meanwhile, as it does if its master stays away.
    """
    if str(session.sparkContext.master).startswith("local["):
        return
    began_s = time.monotonic()
    reported = False
    while (there := _count(session, registered)) < (needed := HELD.ahead_of(job_id) + slots):
        waited_s = time.monotonic() - began_s
        if waited_s * 1000 >= timeout_ms:
            raise NotEnoughSlotsError(_too_few(session, slots, needed, there, waited_s))
        if waited_s >= _SILENT_S and not reported:
            reported = True
            _log.warning("waiting for slots: %s", _numbers(session, needed, there))
        time.sleep(_POLL_S)


def check_registered(
    session: SparkSession, job_id: str, slots: int, registered: Callable[[SparkSession], int] = concurrent_tasks
) -> None:
    """Raise NotEnoughSlotsError if the slots of this job, and of those before it, are not all there now.

    Spark admits each query by capacity: the second of two would start with what the first has left, and wait for ever.
    """
    wait_for_slots(session, job_id, slots, 0, registered)


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


def _numbers(session: SparkSession, needed: int, there: int) -> str:
    master = str(session.sparkContext.master)
    text = f"{master} has given {there} of {needed} to this application"
    page_port = session.sparkContext.getConf().get("spark.master.ui.port", _PAGE_PORT)
    shared = holders(master, page_port) if master.startswith(PREFIX) else ""
    if master.startswith(PREFIX) and not shared and not answers(master):
        shared = "Its master does not answer: none of them comes back before it does"
    return f"{text}. {shared}" if shared else text


def _too_few(session: SparkSession, slots: int, needed: int, there: int, waited_s: float) -> str:
    ahead = needed - slots
    beside = f", beside {ahead} of other jobs of this process," if ahead else ""
    after = f"after {waited_s:.0f} s " if waited_s >= 1 else ""
    return (
        f"this job needs {slots} slots at once{beside} and {after}"
        f"{_numbers(session, needed, there)}.\n"
        "  Do one of: a lower parallelism (env.set_parallelism, penstock run -p) · more machines, or less memory for "
        "each executor (spark.executor.memory) · wait until others have ended, longer than "
        f"{options.SLOT_REQUEST_TIMEOUT.key}, which is the time that a job waits"
    )
