"""The two ends of a worker's socket, taken from PySpark's frame that calls a stage's function.

PySpark gives a function an iterator and takes an iterator from it; the streams below are local variables of
`pyspark.worker.invoke_udf`. They can only be taken if PySpark has not started to read by itself, and whether it will is
decided between the unpickling of the function and its call. So there are two steps: unpickling makes the claim, if this
PySpark looks as expected, and the call takes the streams.
"""

from __future__ import annotations

import importlib.util
import io
import logging
import os
import sys
from collections.abc import Iterator
from functools import cache
from types import CodeType
from typing import Any

from penstock.common.errors import ConfigurationError

_WORKER = "pyspark.worker"
_CALLER = "invoke_udf"
_CALL = "process"
_INPUT, _OUTPUT = "input_data_stream", "outfile"
_READING_THREAD = "SPARK_PIPELINED_UDF"

_log = logging.getLogger(__name__)


class WorkerStreams:
    """Part of a stage's function: unpickled in a worker, it claims the streams of that worker."""

    def __init__(self, claimed: bool = False) -> None:
        self.claimed = claimed
        """Whether `take` can be called. Else PySpark reads and writes as it does for any function."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _claim, ()

    def take(self) -> tuple[io.BufferedReader, io.BufferedWriter]:
        """Input and output of this worker; the caller must be called by the stage's function.

        Raises ConfigurationError if PySpark's frame is not found, or does not hold two buffered streams.
        """
        frame = sys._getframe()
        while frame.f_back is not None:
            frame = frame.f_back
            if frame.f_code.co_name == _CALL and frame.f_globals.get("__name__") == _WORKER:
                streams = frame.f_locals.get(_INPUT), frame.f_locals.get(_OUTPUT)
                if isinstance(streams[0], io.BufferedReader) and isinstance(streams[1], io.BufferedWriter):
                    return streams[0], streams[1]
        # The thread that would read for an iterator is off by now: there is no way back within this task.
        raise ConfigurationError(
            "the input and output of this PySpark worker were not found where penstock looks for them. "
            "Set penstock.spark.transport: iterators"
        )


def _claim() -> WorkerStreams:
    reason = misfit()
    if reason is None:
        # PySpark looks at this after it has loaded the function and before it reads any input.
        os.environ[_READING_THREAD] = "0"
        return WorkerStreams(claimed=True)
    # The driver has looked at its own PySpark before; this is about an executor with another one.
    _log.warning("penstock.spark.transport: iterators is used by process %d, as %s", os.getpid(), reason)
    return WorkerStreams()


def misfit() -> str | None:
    """Why the streams of workers with this PySpark can't be taken; None if they can. Costs milliseconds, once."""
    module = sys.modules.get(_WORKER)
    if module is not None:
        function = getattr(module, _CALLER, None)
        return _misfit_of(getattr(function, "__code__", None))
    return _misfit_of(_code_of_worker())


@cache
def _code_of_worker() -> CodeType | None:
    """The code of the function that calls stages, without running its module: on a driver that would take a second."""
    spec = importlib.util.find_spec(_WORKER)
    loader: Any = spec.loader if spec is not None else None
    module = loader.get_code(_WORKER) if hasattr(loader, "get_code") else None
    return next(_nested(module, _CALLER), None) if module is not None else None


def _misfit_of(caller: CodeType | None) -> str | None:
    if caller is None:
        return f"{_WORKER} has no function {_CALLER}"
    if _READING_THREAD not in _constants(caller):
        return f"{_WORKER}.{_CALLER} does not look at {_READING_THREAD}"
    if not any({_INPUT, _OUTPUT} <= set(code.co_freevars) for code in _nested(caller, _CALL)):
        return f"{_WORKER}.{_CALLER} has no function {_CALL} with the variables {_INPUT} and {_OUTPUT}"
    return None


def _nested(code: CodeType, name: str) -> Iterator[CodeType]:
    return (constant for constant in code.co_consts if isinstance(constant, CodeType) and constant.co_name == name)


def _constants(code: CodeType) -> set[str]:
    return {constant for constant in code.co_consts if isinstance(constant, str)}
