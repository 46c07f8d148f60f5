"""A process that is stopped between a write and its next read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.engine.checkpoint.record_files import RecordFiles


class Interrupted:
    """A store whose user is stopped directly after it creates an entry, while `meanwhile` runs."""

    def __init__(self, store: RecordFiles, meanwhile: Callable[[], object]) -> None:
        self._store = store
        self._meanwhile = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def create(self, number: int, data: bytes) -> bool:
        created = self._store.create(number, data)
        self._meanwhile()
        return created
