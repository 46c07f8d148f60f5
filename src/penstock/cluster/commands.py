"""What another process of the user may ask of a running job: its status, its checkpoints, a savepoint, an end."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

import msgspec

from penstock.rpc.messages import Answered, Command

if TYPE_CHECKING:
    from penstock.cluster.job_manager import JobManager


def obey(manager: JobManager, command: Command, answer: Callable[[Answered], None]) -> None:
    """Do what is asked; `answer` is called when it is done. Both happen in the control server's thread."""
    outcome = _COMMANDS[command.verb](manager, command)

    def tell(done: Future[str]) -> None:
        error = done.exception()
        answer(Answered(0, error is None, str(error) if error is not None else done.result()))

    outcome.add_done_callback(tell)


def _status(manager: JobManager, command: Command) -> Future[str]:
    return _at_once(manager.status.name)


def _cancel(manager: JobManager, command: Command) -> Future[str]:
    manager.cancel()
    return _at_once("")


def _savepoint(manager: JobManager, command: Command) -> Future[str]:
    return manager.savepoint(command.directory)


def _stop(manager: JobManager, command: Command) -> Future[str]:
    return manager.stop(command.directory, command.drain)


def _checkpoints(manager: JobManager, command: Command) -> Future[str]:
    return _at_once(msgspec.json.encode([vars(report) for report in manager.checkpoint_reports()]).decode())


def _at_once(text: str) -> Future[str]:
    done: Future[str] = Future()
    done.set_result(text)
    return done


_COMMANDS: dict[str, Callable[[JobManager, Command], Future[str]]] = {
    "status": _status,
    "cancel": _cancel,
    "savepoint": _savepoint,
    "stop": _stop,
    "checkpoints": _checkpoints,
}
