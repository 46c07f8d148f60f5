"""Define the messages between a JobMaster and its slots: the runtime's events and effects, inside an attempt.

All messages are typed; arbitrary values (splits, results, committables) travel pickled inside `Opaque`. Both ends hold
keys made for this job alone, so such a pickle comes from the job itself.
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
    """Metrics of `user` that are minima or maxima. All others are sums."""
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
    """Whether it still restores its state or opens its functions."""
    start_delay_ms: int = 0
    """Time from the trigger of the latest checkpoint until the task began its part."""
    alignment_ns: int = 0
    """How long its barriers waited for each other, or have waited so far."""
    mails: int = 0
    """Messages of the JobMaster that its slot has handled."""
    mails_waiting: int = 0
    mail_latency_mean_ms: float = 0
    """How long the latest of these messages waited."""
    mail_latency_max_ms: float = 0
    managed_memory_bytes: int = 0
    """Memory that its operators hold of the budget of its slot (bytes)."""
    managed_memory_limit_bytes: int | None = None
    """The budget of its slot; None without `taskmanager.memory.managed.size`."""


class Register(msgspec.Struct, frozen=True, tag=True):
    """The slot's tasks are open and wait for input. `address`: for messages of other slots; empty if it gets none."""

    address: str = ""


class Heartbeat(msgspec.Struct, frozen=True, tag=True):
    """The slot is alive.

    `sent`: how many messages it had sent before, heartbeats of its control thread not counted; None if this heartbeat
    is counted itself. `log`: lines logged since the previous heartbeat, if the driver does not see the slot's folder.
    """

    reports: list[TaskReport]
    sent: int | None = None
    log: str = ""


class SlotFailed(msgspec.Struct, frozen=True, tag=True):
    """A task of the slot failed, as `penstock.engine.rpc.failures.describe` describes it.

    `kind`: the error's class in penstock.common.errors; `raised`: the classes of the error that a user's function
    raised.
    """

    kind: str
    message: str
    raised: frozenset[str] = frozenset()


SlotReport = Register | Heartbeat | SlotFailed | ControlEffect
"""A report of a slot or of one of its tasks."""


class FromSlot(msgspec.Struct, frozen=True, tag=True):
    """A report of a slot (level, index) in an attempt."""

    attempt: int
    level: int
    index: int
    report: SlotReport


class ToTask(msgspec.Struct, frozen=True, tag=True):
    """An event for the task of `vertex` in the receiving slot. Close and Cancel end all tasks of the slot."""

    attempt: int
    vertex: int
    event: ControlEvent


class Command(msgspec.Struct, frozen=True, tag=True):
    """A request of another process of the user.

    `directory`: the target of a savepoint. `parallelism`: the whole job's parallelism for `scale`, and `operators`: the
    parallelism of single operators, by name or uid. `program`: a NewProgram whose functions replace the job's;
    `allow_non_restored`: it need not have all operators with state.
    """

    verb: Literal["status", "figures", "checkpoints", "savepoint", "stop", "cancel", "scale", "update"]
    directory: str | None = None
    drain: bool = False
    parallelism: int | None = None
    operators: dict[str, int] = {}
    program: bytes = b""
    allow_non_restored: bool = False


class Answer(msgspec.Struct, frozen=True, tag=True):
    """The answer to a Command: the result, or why it failed."""

    done: bool
    text: str
    error: str = ""
    """The class of the error, one of penstock.common.errors. "": a JobError."""


class ReadCommand(msgspec.Struct, frozen=True, tag=True):
    """A live query of keyed state by another process of the user.

    `number`: identifies the answer. Either `name` is the queryable name of the state, or `operator` is the uid of its
    operator and `state` its own name. `keys`: Python literals; None selects the first `limit` entries that are found.
    """

    number: int
    name: str = ""
    operator: str = ""
    state: str = ""
    keys: list[str] | None = None
    limit: int = 0


class ReadAnswer(msgspec.Struct, frozen=True, tag=True):
    """The answer to a ReadCommand.

    `error`: the name of the error's class, with its `text`; empty if the query succeeded. `entries`: lists of rows with
    `columns`: one list for each key of the query, in order; without keys, the entries that were found.
    """

    number: int
    error: str = ""
    text: str = ""
    operator: str = ""
    state: str = ""
    schema: str = ""
    """Kind and type of the state, as its function declares them."""
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
    """Encode a message. Escape lone surrogates in its texts, so that an error that quotes one can be sent."""
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
