"""The log of commands that are not applied yet, in Redis itself, by which the sink writes exactly once.

    penstock/<job>/<sink>/<subtask>/<attempt>    a hash: number of a chunk -> commands that are not applied
    penstock/<job>/<sink>/applied                a hash: <subtask>/<attempt> -> number of the next chunk to apply

An attempt of a subtask numbers its chunks from 0. The chunks between two checkpoints are a transaction. A script, which
Redis runs atomically, applies each chunk: it executes the commands, deletes the chunk and increments the number, so
that a repeated commit has no effect. docs/internals/decisions/0025 has the reasons.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from penstock.api.sink import SinkContext
from penstock.common.stored import stored_as
from penstock.connectors.base.attempts import order_of
from penstock.connectors.base.former_subtasks import FormerSubtasks
from penstock.connectors.redis.sink.commands import Command

_log = logging.getLogger(__name__)

# A refused command stays in the log, with those after it: the log contains what is not applied.
_APPLY = """\
local number = tonumber(ARGV[2])
local nxt = tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or '0')
if number < nxt then return {'applied before'} end
local chunk = redis.call('HGET', KEYS[1], ARGV[2])
if not chunk then return {'lost'} end
local commands = cmsgpack.unpack(chunk)
for index, command in ipairs(commands) do
  local answer = redis.pcall(unpack(command))
  if type(answer) == 'table' and answer.err then
    if index > 1 then
      local rest = {}
      for left = index, #commands do rest[#rest + 1] = commands[left] end
      redis.call('HSET', KEYS[1], ARGV[2], cmsgpack.pack(rest))
    end
    return {'refused', answer.err, unpack(command)}
  end
end
redis.call('HDEL', KEYS[1], ARGV[2])
redis.call('HSET', KEYS[2], ARGV[1], number + 1)
return {'applied'}
"""


@stored_as("redis-transaction")
class RedisTransaction(msgspec.Struct, frozen=True):
    """Chunks of a log: from number `start` to before number `stop`."""

    log: str
    start: int
    stop: int


@stored_as("redis-transactions-of-writer")
class TransactionsOfWriter(msgspec.Struct, frozen=True):
    """State of a writer: its subtask and parallelism, and its prepared transactions that may not be committed yet."""

    subtask: int
    parallelism: int
    prepared: list[RedisTransaction]


class LogNames(NamedTuple):
    """Keys of the log of one attempt of one subtask."""

    sink: str
    subtask: int
    attempt: str

    @classmethod
    def of(cls, context: SinkContext) -> LogNames:
        """Return the names for a new attempt. They contain a digest of the uid, which may be long."""
        digest = hashlib.blake2s(context.operator_id.encode(), digest_size=8).hexdigest()
        return cls(f"penstock/{context.job_id}/{digest}/", context.subtask, context.attempt.replace("/", "_"))

    @property
    def field(self) -> str:
        """Return the field of this log in the hash of applied chunks."""
        return f"{self.subtask}/{self.attempt}"

    @property
    def log(self) -> str:
        """Return the log's key."""
        return f"{self.sink}{self.field}"

    @property
    def applied(self) -> str:
        """Return the key of the hash of applied chunks."""
        return f"{self.sink}applied"


def keys_of(log: str) -> tuple[str, str]:
    """Return the key of the hash of applied chunks, and the field of a log in it."""
    sink, subtask, attempt = log.rsplit("/", 2)
    return f"{sink}/applied", f"{subtask}/{attempt}"


class Applied(NamedTuple):
    """The result for a chunk. `refused`: the reason; `command`: the first one that is not applied."""

    is_lost: bool = False
    refused: str | None = None
    command: Sequence[bytes] = ()


def begin(client: Any, names: LogNames) -> int:
    """Register the log, so that a successor finds it. Return the number of its first chunk."""
    client.hsetnx(names.applied, names.field, 0)
    return int(client.hget(names.applied, names.field))


def apply(client: Any, log: str, chunk: int) -> Applied:
    """Apply a chunk, unless it was applied before."""
    applied, field = keys_of(log)
    what, *more = client.register_script(_APPLY)(keys=[log, applied], args=[field, chunk])
    if what == b"refused":
        return Applied(refused=more[0].decode(errors="backslashreplace"), command=more[1:])
    return Applied(is_lost=what == b"lost")


def are_applied(client: Any, transactions: Sequence[RedisTransaction]) -> list[bool]:
    """Return whether each transaction was applied completely."""
    pipeline = client.pipeline(transaction=False)
    for one in transactions:
        pipeline.hget(*keys_of(one.log))
    return [int(number or 0) >= one.stop for one, number in zip(transactions, pipeline.execute(), strict=True)]


def drop(client: Any, log: str, chunks: Iterable[int]) -> None:
    """Delete chunks that will not be applied."""
    numbers = list(chunks)
    if numbers:
        client.hdel(log, *numbers)


def drop_earlier_attempts(
    client: Any, names: LogNames, former: FormerSubtasks, to_commit: Iterable[RedisTransaction]
) -> None:
    """Delete chunks of earlier attempts that the restored checkpoint does not commit, as `to_commit` does."""
    ranges = [(one.log, range(one.start, one.stop)) for one in to_commit]
    for field in map(bytes.decode, client.hkeys(names.applied)):
        subtask, attempt = field.split("/", 1)
        if not former.include(int(subtask)) or order_of(attempt) >= order_of(names.attempt):
            continue
        log = f"{names.sink}{field}"
        left = [int(chunk) for chunk in client.hkeys(log)]
        dropped = [chunk for chunk in left if not any(log == of and chunk in some for of, some in ranges)]
        if dropped:
            _log.info("dropping %d chunks of commands in '%s', of an earlier attempt", len(dropped), log)
            drop(client, log, dropped)


def packed(commands: Sequence[Command]) -> bytes:
    """Encode commands as MessagePack arrays of raw texts: Redis's scripts cannot decode its bytes type."""
    parts = [b"\xdd" + len(commands).to_bytes(4, "big")]
    for command in commands:
        parts.append(b"\xdd" + len(command).to_bytes(4, "big"))
        for part in command:
            parts.append(b"\xdb" + len(part).to_bytes(4, "big"))
            parts.append(part)
    return b"".join(parts)
