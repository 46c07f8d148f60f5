"""Pointers to jobs in a ConfigMap of Kubernetes, which also says who may change them.

    data   leader   {"term": 3, "writer": "…"}     the process that may change it
           job-ID   state-3-17                     the pointer to the newest state of a job

A leader takes the map over by replacing it as it was read, with its own term. A former leader has read an older
version, so its writes are refused, and it finds its successor in the map. Terms only increase; a process that comes
late can't take the map over. Safety depends on one object holding both leader and pointers: Kubernetes has no
transactions over several objects.

Source: Flink's KubernetesStateHandleStore, which also keeps both in one map.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable

import msgspec

from penstock.common.values.decoding import DECODING_ERRORS, from_json
from penstock.service.cluster.high_availability.kubernetes_api import (
    CONFIG_MAP,
    ConflictError,
    MissingError,
    Object,
    Objects,
    retry_unanswered,
)
from penstock.service.cluster.high_availability.pointers import NotLeadingError, Pointers
from penstock.service.cluster.high_availability.steady_clock import steady_ms

_LEADER = "leader"
_JOB = "job-"


class _Leader(msgspec.Struct, frozen=True):
    """The process that has taken the map over last."""

    term: int = 0
    writer: str = ""


class ConfigMapPointers(Pointers):
    """`empty`: the map as it is created. `patience_ms`: for how long a change is retried without an answer."""

    def __init__(
        self,
        objects: Objects,
        empty: Object,
        patience_ms: int,
        now_ms: Callable[[], int] = steady_ms,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._objects = objects
        self._map = empty
        """The map as this process has last read or written it."""
        self._name = str(empty["metadata"]["name"])
        self._leader = _Leader(writer=uuid.uuid4().hex)
        """This process, with the term that it leads."""
        self._patience = patience_ms, now_ms, pause
        self._lock = threading.Lock()

    def read(self) -> int:
        """Return the term of the last takeover. Raises OSError, MissingError."""
        found = self._objects.get(CONFIG_MAP, self._name)
        with self._lock:
            self._map = found
        return _leader_of(found).term

    def create(self) -> None:
        """Create the map without a leader, or keep an existing one. Raises OSError."""
        with self._lock:
            if "resourceVersion" not in self._map["metadata"]:
                self._objects.create(CONFIG_MAP, self._map)

    def take_over(self, term: int) -> bool:
        """Take the map over as it was last read; return False if another process has, for this term or a later one.

        Raises OSError.
        """
        leader = msgspec.structs.replace(self._leader, term=term)
        with self._lock:
            while _leader_of(self._map).term < term:
                try:
                    self._replace(leader, self._jobs())
                except ConflictError:
                    # The former leader has written once more, or this process has, and its answer was lost.
                    self._map = self._objects.get(CONFIG_MAP, self._name)
                else:
                    self._leader = leader
                    return True
        return False

    def all(self) -> dict[str, str]:
        with self._lock:
            return self._jobs()

    def put(self, id: str, pointer: str) -> None:
        self._change(lambda jobs: jobs | {id: pointer})

    def remove(self, id: str) -> None:
        self._change(lambda jobs: {key: pointer for key, pointer in jobs.items() if key != id})

    def _change(self, edit: Callable[[dict[str, str]], dict[str, str]]) -> None:
        with self._lock:
            retry_unanswered(lambda: self._try(edit), *self._patience)

    def _try(self, edit: Callable[[dict[str, str]], dict[str, str]]) -> None:
        while True:
            try:
                return self._replace(self._leader, edit(self._jobs()))
            except MissingError as error:
                raise _gone(error) from None
            except ConflictError:
                self._map = self._still_ours()

    def _still_ours(self) -> Object:
        """Read the map: a write of this process may have counted although its answer was lost.

        Raises NotLeadingError, OSError.
        """
        try:
            found = self._objects.get(CONFIG_MAP, self._name)
        except MissingError as error:
            raise _gone(error) from None
        if _leader_of(found) != self._leader:
            raise NotLeadingError("another process leads the cluster, so writes of this one no longer count")
        return found

    def _replace(self, leader: _Leader, jobs: dict[str, str]) -> None:
        data = {_LEADER: msgspec.json.encode(leader).decode()} | {_JOB + id: pointer for id, pointer in jobs.items()}
        self._map = self._objects.replace(CONFIG_MAP, {**self._map, "data": data})

    def _jobs(self) -> dict[str, str]:
        data = self._map.get("data") or {}
        return {key.removeprefix(_JOB): pointer for key, pointer in data.items() if key.startswith(_JOB)}


def _leader_of(found: Object) -> _Leader:
    try:
        return from_json((found.get("data") or {})[_LEADER], _Leader)
    except (KeyError, *DECODING_ERRORS):
        return _Leader()


def _gone(error: MissingError) -> NotLeadingError:
    return NotLeadingError(f"the ConfigMap of the cluster's jobs was removed: {error}")
