"""Redis as a store of tasks without older versions: it holds only the state of completed checkpoints.

    penstock/state/<job>/<operator>                            a hash: `run` (the fence), key group -> its version
    penstock/state/<job>/<operator>/tables                     a set: the names of tables
    penstock/state/<job>/<operator>/values/<group>/<table>     a hash: key -> value
    penstock/state/<job>/<operator>/keys/<group>/<table>       a sorted set of the same keys, to find them by prefix

All writes are scripts that first compare the run of their owner: a later owner changes the run, and writes of the
earlier one fail from then on. The log above the store is in engine/state/backends/versioned/logged.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from penstock.common.errors import CheckpointError
from penstock.connectors.redis.server import RedisConnection, RedisServer
from penstock.engine.runtime.task.vertex import RedisSettings
from penstock.engine.state.backends.versioned.backend import VersionedStores
from penstock.engine.state.backends.versioned.logged import Entry, LoggedStore
from penstock.engine.state.backends.versioned.store import LoggedEntry, StoreOwner, StoreVersion

_BATCH_ENTRIES = 500
_PAGE_ENTRIES = 2_000
_PREFIX: Final = "penstock/state"

_FENCE: Final = """\
local run = redis.call('HGET', KEYS[1], 'run')
if run and tonumber(run) > tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'run', ARGV[1])
return 1
"""
_APPLY: Final = """\
if redis.call('HGET', KEYS[1], 'run') ~= ARGV[1] then return 0 end
for i = 2, #ARGV, 4 do
  local place, key, value = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local values, keys = KEYS[1] .. '/values/' .. place, KEYS[1] .. '/keys/' .. place
  if ARGV[i + 3] == '1' then
    redis.call('HSET', values, key, value)
    redis.call('ZADD', keys, 0, key)
  else
    redis.call('HDEL', values, key)
    redis.call('ZREM', keys, key)
  end
end
return 1
"""
_MARK: Final = """\
if redis.call('HGET', KEYS[1], 'run') ~= ARGV[1] then return 0 end
for i = 3, #ARGV do redis.call('HSET', KEYS[1], ARGV[i], ARGV[2]) end
return 1
"""
_REMOVE: Final = """\
if redis.call('HGET', KEYS[1], 'run') ~= ARGV[1] then return 0 end
for i = 2, #ARGV do redis.call('UNLINK', ARGV[i]) end
return 1
"""
_FORGET: Final = """\
if redis.call('HGET', KEYS[1], 'run') ~= ARGV[1] then return 0 end
for i = 2, #ARGV do redis.call('HDEL', KEYS[1], ARGV[i]) end
return 1
"""
_COPY: Final = """\
if redis.call('HGET', KEYS[1], 'run') ~= ARGV[1] then return 0 end
redis.call('COPY', ARGV[2], ARGV[3], 'REPLACE')
return 1
"""
# Every change is a script that compares the run first: a run that is paused during `begin`, and resumes when another
# run owns the state, changes nothing.


class RedisStore:
    """The state of one subtask of an operator, as of its last completed checkpoint."""

    def __init__(self, server: RedisServer, owner: StoreOwner) -> None:
        self._server = server
        self._owner = owner
        self._connection = RedisConnection(server)
        self._base = _base_of(owner.job, owner.operator)
        self._tables: set[str] = set()

    def get(self, table: str, group: int, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""
        value: bytes | None = self._connection.call(lambda client: client.hget(self._values(table, group), key))
        return value

    def items(self, table: str, group: int, prefix: bytes) -> Iterator[Entry]:
        """Return all entries of a key group whose keys start with `prefix`."""
        bounds = (b"[" + prefix, _upper_bound(prefix))
        keys = self._connection.call(lambda client: client.zrangebylex(self._keys(table, group), *bounds))
        for at in range(0, len(keys), _PAGE_ENTRIES):
            page = keys[at : at + _PAGE_ENTRIES]
            (values,) = self._send([("HMGET", self._values(table, group), *page)])
            yield from zip(page, values, strict=True)

    def sample(self, table: str, groups: range) -> Iterator[tuple[int, bytes, bytes]]:
        """Return one entry of each key group: group, key and value."""
        firsts = self._send([("ZRANGE", self._keys(table, group), 0, 0) for group in groups])
        found = [(group, key) for group, keys in zip(groups, firsts, strict=True) for key in keys]
        values = self._send([("HGET", self._values(table, group), key) for group, key in found]) if found else []
        for (group, key), value in zip(found, values, strict=True):
            yield group, key, value

    def begin(self, versions: Sequence[StoreVersion]) -> None:
        """Begin with the content of these versions in the owner's key groups; other groups are empty."""
        owner = self._owner
        self._script(_FENCE)
        tables = self._tables_of(self._base)
        left = set(range(owner.first, owner.after))
        for version in versions:
            groups = {*range(version.first, version.after)} & left
            left -= groups
            other_base = _base_of(version.job, version.operator)
            self._check_marks(other_base, version, groups)
            if other_base != self._base:
                self._remove(tables, groups)
                self._copy(other_base, groups)
                # Checked again: if that job wrote during the copy, the copy is inconsistent.
                self._check_marks(other_base, version, groups)
        self._remove(tables, left)

    def apply(self, groups: range, version: int, entries: Sequence[LoggedEntry]) -> None:
        """Store values, after which these key groups have this version. None removes a key."""
        if new := {entry.table for entry in entries} - self._tables:
            self._tables |= new
            self._connection.call(lambda client: client.sadd(f"{self._base}/tables", *new))
        # Marked first: after a failure before the end, this is no longer the state of an older version. A restore from
        # this version applies all changes again.
        self._script(_MARK, version, *groups)
        for at in range(0, len(entries), _BATCH_ENTRIES):
            arguments: list[Any] = []
            for entry in entries[at : at + _BATCH_ENTRIES]:
                is_there = entry.value is not None
                arguments += (f"{entry.group}/{entry.table}", entry.key, entry.value or b"", int(is_there))
            self._script(_APPLY, *arguments)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _script(self, script: str, *arguments: Any) -> None:
        run = self._owner.run
        if not self._connection.call(lambda client: client.eval(script, 1, self._base, run, *arguments)):
            raise CheckpointError(
                f"the state of the operator '{self._owner.operator}' in Redis belongs to a later run of job "
                f"{self._owner.job}: this run was considered dead, and ends"
            )

    def _check_marks(self, base: str, version: StoreVersion, groups: set[int]) -> None:
        marks = self._connection.call(lambda client: client.hmget(base, sorted(groups))) if groups else []
        if any(mark is not None and int(mark) > version.version for mark in marks):
            raise CheckpointError(
                f"the state of the operator '{version.operator}' of job {version.job} in Redis belongs to a later "
                "checkpoint, and Redis has no older versions: start from the newest checkpoint, or from a savepoint"
            )
        if any(int(mark or 0) < version.applied for mark in marks):
            raise CheckpointError(
                f"the state of the operator '{version.operator}' of job {version.job} is no longer in Redis, or is "
                "older than this checkpoint: start from a savepoint, or from a retained checkpoint"
            )

    def _copy(self, other_base: str, groups: set[int]) -> None:
        tables = self._tables_of(other_base)
        pairs = [
            (f"{other_base}/{kind}/{group}/{table}", f"{self._base}/{kind}/{group}/{table}")
            for kind in ("values", "keys")
            for group in groups
            for table in tables
        ]
        for pair in pairs:
            self._script(_COPY, *pair)
        if tables:
            self._connection.call(lambda client: client.sadd(f"{self._base}/tables", *tables))

    def _remove(self, tables: set[str], groups: set[int]) -> None:
        names = [name(table, one) for name in (self._values, self._keys) for table in tables for one in groups]
        for at in range(0, len(names), _BATCH_ENTRIES):
            self._script(_REMOVE, *names[at : at + _BATCH_ENTRIES])
        if groups:
            self._script(_FORGET, *groups)

    def _send(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        answers = self._connection.pipelined(commands)
        for answer in answers:
            if isinstance(answer, Exception):
                raise self._server.failed(answer)
        return answers

    def _tables_of(self, base: str) -> set[str]:
        return {name.decode() for name in self._connection.call(lambda client: client.smembers(f"{base}/tables"))}

    def _values(self, table: str, group: int) -> str:
        return f"{self._base}/values/{group}/{table}"

    def _keys(self, table: str, group: int) -> str:
        return f"{self._base}/keys/{group}/{table}"


def _base_of(job: str, operator: str) -> str:
    # Hashed: a uid may be long and contain any characters.
    return f"{_PREFIX}/{job}/{hashlib.blake2s(operator.encode(), digest_size=8).hexdigest()}"


def _upper_bound(prefix: bytes) -> bytes:
    """Return the bound of ZRANGEBYLEX that excludes all keys after those with this prefix."""
    head = prefix.rstrip(b"\xff")
    return b"(" + head[:-1] + bytes([head[-1] + 1]) if head else b"+"


def redis_stores(settings: RedisSettings) -> VersionedStores:
    """Return stores for the tasks of a slot."""
    server = RedisServer(settings.url, settings.user, settings.password)

    def opened(owner: StoreOwner) -> LoggedStore:
        return LoggedStore(lambda: RedisStore(server, owner), owner, "redis", settings.cached_entries)

    return VersionedStores(opened, settings.cached_entries, "redis")


def forget_job(settings: RedisSettings, job: str) -> None:
    """Remove the state of a job that has ended without a retained checkpoint."""
    with RedisServer(settings.url, settings.user, settings.password).session() as client:
        names = list(client.scan_iter(match=f"{_PREFIX}/{job}/*", count=1_000))
        for at in range(0, len(names), _BATCH_ENTRIES):
            client.unlink(*names[at : at + _BATCH_ENTRIES])
