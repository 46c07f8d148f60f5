"""The log of commands that are not applied yet, in Redis itself: how its sink writes exactly once.

    penstock/<job>/<sink>/<subtask>/<attempt>    a hash: number of a chunk -> commands, while they are not applied
    penstock/<job>/<sink>/applied                a hash: <subtask>/<attempt> -> number of the chunk to be applied next

An attempt of a subtask numbers its chunks from 0. What it writes between two checkpoints is a range of them: a
transaction. Each chunk is applied by a script, which Redis runs as a whole: it carries the commands out, deletes the
chunk and moves the number on, so that a repeated commit does nothing. docs/internals/decisions/0025 has the reasons.
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

# A command that is refused stays there, and those behind it: what is in the log is not applied.
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
    """Chunks of a log: from number `start` on, before number `stop`."""

    log: str
    start: int
    stop: int


@stored_as("redis-transactions-of-writer")
class TransactionsOfWriter(msgspec.Struct, frozen=True):
    """State of a writer: which subtask it was, of how many, and what it has prepared and not seen committed."""

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
        """Return the names for an attempt that begins. They have a digest of the uid, which may be long."""
        digest = hashlib.blake2s(context.operator_id.encode(), digest_size=8).hexdigest()
        return cls(f"penstock/{context.job_id}/{digest}/", context.subtask, context.attempt.replace("/", "_"))

    @property
    def field(self) -> str:
        """In the hash of what was applied."""
        return f"{self.subtask}/{self.attempt}"

    @property
    def log(self) -> str:
        """The log's key."""
        return f"{self.sink}{self.field}"

    @property
    def applied(self) -> str:
        """The key of the hash of what was applied."""
        return f"{self.sink}applied"


def keys_of(log: str) -> tuple[str, str]:
    """Key of the hash of what was applied, and the field of a log in it."""
    sink, subtask, attempt = log.rsplit("/", 2)
    return f"{sink}/applied", f"{subtask}/{attempt}"


class Applied(NamedTuple):
    """What became of a chunk. `refused`: the reason, and `command`, which is the first that is not applied."""

    is_lost: bool = False
    refused: str | None = None
    command: Sequence[bytes] = ()


def begin(client: Any, names: LogNames) -> int:
    """Make the log known, so that a successor finds it. Returns the number of its first chunk."""
    client.hsetnx(names.applied, names.field, 0)
    return int(client.hget(names.applied, names.field))


def apply(client: Any, log: str, chunk: int) -> Applied:
    """Apply a chunk, unless that was done before."""
    applied, field = keys_of(log)
    what, *more = client.register_script(_APPLY)(keys=[log, applied], args=[field, chunk])
    if what == b"refused":
        return Applied(refused=more[0].decode(errors="backslashreplace"), command=more[1:])
    return Applied(is_lost=what == b"lost")


def are_applied(client: Any, transactions: Sequence[RedisTransaction]) -> list[bool]:
    """Whether each was applied whole."""
    pipeline = client.pipeline(transaction=False)
    for one in transactions:
        pipeline.hget(*keys_of(one.log))
    return [int(number or 0) >= one.stop for one, number in zip(transactions, pipeline.execute(), strict=True)]


def drop(client: Any, log: str, chunks: Iterable[int]) -> None:
    """Delete chunks that nobody will apply."""
    numbers = list(chunks)
    if numbers:
        client.hdel(log, *numbers)


def drop_former(client: Any, names: LogNames, former: FormerSubtasks, kept: Iterable[RedisTransaction]) -> None:
    """Delete what former attempts have left that no restored checkpoint commits: all but the chunks of `kept`."""
    ranges = [(one.log, range(one.start, one.stop)) for one in kept]
    for field in map(bytes.decode, client.hkeys(names.applied)):
        subtask, attempt = field.split("/", 1)
        if not former.include(int(subtask)) or order_of(attempt) >= order_of(names.attempt):
            continue
        log = f"{names.sink}{field}"
        left = [int(chunk) for chunk in client.hkeys(log)]
        dropped = [chunk for chunk in left if not any(log == of and chunk in some for of, some in ranges)]
        if dropped:
            _log.info("%d chunks of commands in '%s', of a former attempt, are dropped", len(dropped), log)
            drop(client, log, dropped)


def packed(commands: Sequence[Command]) -> bytes:
    """Commands as MessagePack's arrays of raw texts, which is what Redis's scripts can read: they know no bytes."""
    parts = [b"\xdd" + len(commands).to_bytes(4, "big")]
    for command in commands:
        parts.append(b"\xdd" + len(command).to_bytes(4, "big"))
        for part in command:
            parts.append(b"\xdb" + len(part).to_bytes(4, "big"))
            parts.append(part)
    return b"".join(parts)
