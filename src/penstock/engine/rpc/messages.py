"""The messages between a job master and its slots: the runtime's own events and effects, with the attempt around them.

Everything is typed; arbitrary values (splits, results, committables) travel pickled inside `Opaque`. Both ends hold
keys that were made for this job alone, so a pickle here comes from the job itself.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from penstock.common.constants import MIN_TIMESTAMP
from penstock.common.text.unicode_text import writable
from penstock.common.values.decoding import msgpack_decoder
from penstock.engine.runtime.task.events import ControlEffect, ControlEvent, Opaque


class OperatorReport(msgspec.Struct, frozen=True, array_like=True):
    """Counters of one operator of a subtask."""

    name: str
    records_in: int
    records_out: int
    late_records_dropped: int
    watermark: int
    user: dict[str, int | float]
    extremes: dict[str, Literal["min", "max"]] = {}
    """Metrics of `user` that are the lowest or the highest value. All others are sums."""
    output_watermark: int = MIN_TIMESTAMP


class TaskReport(msgspec.Struct, frozen=True, array_like=True):
    """Counters of one subtask. Times in nanoseconds."""

    vertex: int
    subtask: int
    bytes_in: int
    bytes_out: int
    buffers_in: int
    buffers_out: int
    busy_ns: int
    idle_ns: int
    back_pressured_ns: int
    latency_count: int
    latency_sum_ms: int
    latency_max_ms: int
    operators: list[OperatorReport]
    restored_bytes: int = 0
    bytes_to_restore: int = 0
    restored_files: int = 0
    files_to_restore: int = 0
    initializing: bool = False
    """Whether its state is being restored, or its functions are being opened."""
    start_delay_ms: int = 0
    """From the trigger of the latest checkpoint until the task's part in it began."""
    alignment_ns: int = 0
    """How long its barriers waited for each other, or have until now."""
    mails: int = 0
    """Messages of the job master that its slot has handled."""
    mails_waiting: int = 0
    mail_latency_mean_ms: float = 0
    """How long the latest of these have waited."""
    mail_latency_max_ms: float = 0


class Register(msgspec.Struct, frozen=True, tag=True):
    """The slot's tasks are open and wait for input. `address`: where other slots reach it; empty: none has to."""

    address: str = ""


class Heartbeat(msgspec.Struct, frozen=True, tag=True):
    """The slot is alive.

    `sent`: how many messages it had sent before, heartbeats of its control thread not counted. None: it is one of them.
    `log`: what it has logged since the one before, if the driver does not see its folder.
    """

    reports: list[TaskReport]
    sent: int | None = None
    log: str = ""


class SlotFailed(msgspec.Struct, frozen=True, tag=True):
    """A task of the slot failed, as `penstock.engine.rpc.failures.describe` says it.

    `kind`: the error's class in penstock.common.errors; `raised`: the classes of what a user's function raised.
    """

    kind: str
    message: str
    raised: frozenset[str] = frozenset()


SlotReport = Register | Heartbeat | SlotFailed | ControlEffect
"""What a slot, or one of its tasks, reports."""


class FromSlot(msgspec.Struct, frozen=True, tag=True):
    """A report of a slot (level, index) in an attempt."""

    attempt: int
    level: int
    index: int
    report: SlotReport


class ToTask(msgspec.Struct, frozen=True, tag=True):
    """An event for the task of `vertex` in the slot that receives this. Close and Cancel end all tasks of the slot."""

    attempt: int
    vertex: int
    event: ControlEvent


class Command(msgspec.Struct, frozen=True, tag=True):
    """A request of another process of the user. `directory`: the target of a savepoint.

    `parallelism`: of the whole job, and `operators`: of some, by name or uid, when it is scaled. `program`: a
    NewProgram whose functions take the places of the job's; `allow_non_restored`: they may leave state over.
    """

    verb: Literal["status", "figures", "checkpoints", "savepoint", "stop", "cancel", "scale", "update"]
    directory: str | None = None
    drain: bool = False
    parallelism: int | None = None
    operators: dict[str, int] = {}
    program: bytes = b""
    allow_non_restored: bool = False


class Answer(msgspec.Struct, frozen=True, tag=True):
    """To the sender of a Command: the result, or why it failed."""

    done: bool
    text: str


class ReadCommand(msgspec.Struct, frozen=True, tag=True):
    """A live query of keyed state, by another process of the user. `number`: by which its answer is known.

    By the queryable `name` of a state, or by the uid of its `operator` and its own name. `keys`: Python literals; None:
    the first `limit` entries that are found.
    """

    number: int
    name: str = ""
    operator: str = ""
    state: str = ""
    keys: list[str] | None = None
    limit: int = 0


class ReadAnswer(msgspec.Struct, frozen=True, tag=True):
    """To the sender of a ReadCommand. `error`: the class of what is raised, with its text; "": there is an answer.

    `entries`: lists of rows, which have these columns: for each key one, in their order; without keys some of any.
    """

    number: int
    error: str = ""
    text: str = ""
    operator: str = ""
    state: str = ""
    schema: str = ""
    """Kind and type of the state, as the function declares them."""
    columns: list[str] = []
    entries: list[Opaque] = []
    is_complete: bool = True


ToJobMaster = FromSlot | Command | ReadCommand
FromJobMaster = ToTask | Answer | ReadAnswer


def _encode_opaque(value: Any) -> bytes:
    if isinstance(value, Opaque):
        return value.to_bytes()
    raise NotImplementedError(f"{type(value).__name__} in a control message")


def _decode_opaque(type_: type, data: Any) -> Any:
    assert type_ is Opaque
    return Opaque.from_bytes(data)


_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_opaque)
decode_to_job_master = msgpack_decoder(ToJobMaster, dec_hook=_decode_opaque).decode
decode_from_job_master = msgpack_decoder(FromJobMaster, dec_hook=_decode_opaque).decode


def encode(message: ToJobMaster | FromJobMaster) -> bytes:
    """A message as it travels. Lone surrogates in its texts are escaped: a reason that quotes one must arrive."""
    try:
        return _encoder.encode(message)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(message, builtin_types=(bytes,), enc_hook=_encode_opaque)
        return _encoder.encode(_all_writable(plain))


def _all_writable(value: Any) -> Any:
    if isinstance(value, str):
        return writable(value)
    if isinstance(value, dict):
        return {_all_writable(key): _all_writable(item) for key, item in value.items()}
    return [_all_writable(item) for item in value] if isinstance(value, list | tuple | frozenset) else value
