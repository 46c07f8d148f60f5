"""The receiver of printed results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.engine.jobmaster.results.result_sinks import PrintResults


class PrintLater(PrintResults):
    """Prints results. The prefix depends on the parallelism, which is known only at submission."""

    def __init__(self, parallelism: Callable[[], int], identifier: str | None, text_of: Callable[[Any], str]) -> None:
        super().__init__(identifier, parallel=True, text_of=text_of)
        self._parallelism = parallelism

    def accept(self, subtask: int, values: list[Any]) -> None:
        """Print the values: see `ResultSink.accept`."""
        self._parallel = self._parallelism() > 1
        super().accept(subtask, values)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with the parallelism, which is known after submission."""
        return PrintResults, (self._identifier, self._parallelism() > 1, self._text_of)
