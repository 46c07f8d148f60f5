"""Settings that a session has while a block runs, and its user's own afterwards, though several threads set them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HeldSettings:
    """Settings that blocks of several threads need at the same time, in one session with the same values.

    A block that begins while another one runs finds the values of that one. So the values that the first block found
    are restored when the last one ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks = 0
        """The number of blocks that run now."""
        self._found: list[tuple[SparkSession, dict[str, str | None]]] = []
        """The settings that blocks found, in the order in which they began. Two objects may be one session."""

    @contextlib.contextmanager
    def held(self, session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
        """Let the session have these settings in the block."""
        with self._lock:
            self._found.append((session, {key: session.conf.get(key, None) for key in settings}))
            self._blocks += 1
        try:
            for key, value in settings.items():
                session.conf.set(key, value)
            yield
        finally:
            with self._lock:
                self._blocks -= 1
                if not self._blocks:
                    self._restore()

    def _restore(self) -> None:
        while self._found:
            session, found = self._found.pop()
            # If the session has ended in between, the block raises an error for that.
            with contextlib.suppress(Exception):
                for key, value in found.items():
                    if value is None:
                        session.conf.unset(key)
                    else:
                        session.conf.set(key, value)
