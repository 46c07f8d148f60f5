"""The two ends of a worker's socket, found in PySpark's frame that calls a stage's function.

PySpark passes an iterator to a function and gets an iterator from it; the streams below these are local variables of
`pyspark.worker.invoke_udf`. They can be used only if PySpark does not start a thread that reads, which it decides
between the unpickling of the function and its call. So there are two steps: the unpickling claims the streams, if this
PySpark has the expected form, and the call finds them.
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
    """Claim the streams of a worker when this object, a part of a stage's function, is unpickled there."""

    def __init__(self, claimed: bool = False) -> None:
        self.claimed = claimed
        """Whether `find` can be called. Otherwise PySpark reads and writes as it does for any function."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _claim, ()

    def find(self) -> tuple[io.BufferedReader, io.BufferedWriter]:
        """Return input and output of this worker. Call it only in a call of the stage's function.

        Raises ConfigurationError if PySpark's frame is not found, or does not contain two buffered streams.
        """
        frame = sys._getframe()
        while frame.f_back is not None:
            frame = frame.f_back
            if frame.f_code.co_name == _CALL and frame.f_globals.get("__name__") == _WORKER:
                streams = frame.f_locals.get(_INPUT), frame.f_locals.get(_OUTPUT)
                if isinstance(streams[0], io.BufferedReader) and isinstance(streams[1], io.BufferedWriter):
                    return streams[0], streams[1]
        # The thread that reads for an iterator has not been started, so this task cannot fall back to iterators.
        raise ConfigurationError(
            "the input and output of this PySpark worker are not where penstock expects them. "
            "Set penstock.spark.transport: iterators"
        )


def _claim() -> WorkerStreams:
    reason = incompatibility()
    if reason is None:
        # PySpark reads this variable after it has loaded the function and before it reads input.
        os.environ[_READING_THREAD] = "0"
        return WorkerStreams(claimed=True)
    # The driver has checked its own PySpark; this executor has another one.
    _log.warning("process %d uses penstock.spark.transport: iterators, because %s", os.getpid(), reason)
    return WorkerStreams()


def incompatibility() -> str | None:
    """Return why the streams of workers with this PySpark cannot be used; None if they can. Takes milliseconds."""
    module = sys.modules.get(_WORKER)
    if module is not None:
        function = getattr(module, _CALLER, None)
        return _incompatibility_of(getattr(function, "__code__", None))
    return _incompatibility_of(_code_of_worker())


@cache
def _code_of_worker() -> CodeType | None:
    """Return the code of the function that calls stages, without running its module, which takes a second."""
    spec = importlib.util.find_spec(_WORKER)
    loader: Any = spec.loader if spec is not None else None
    module = loader.get_code(_WORKER) if hasattr(loader, "get_code") else None
    return next(_nested(module, _CALLER), None) if module is not None else None


def _incompatibility_of(caller: CodeType | None) -> str | None:
    if caller is None:
        return f"{_WORKER} has no function {_CALLER}"
    if _READING_THREAD not in _constants(caller):
        return f"{_WORKER}.{_CALLER} does not read {_READING_THREAD}"
    if not any({_INPUT, _OUTPUT} <= set(code.co_freevars) for code in _nested(caller, _CALL)):
        return f"{_WORKER}.{_CALLER} has no function {_CALL} with the variables {_INPUT} and {_OUTPUT}"
    return None


def _nested(code: CodeType, name: str) -> Iterator[CodeType]:
    return (constant for constant in code.co_consts if isinstance(constant, CodeType) and constant.co_name == name)


def _constants(code: CodeType) -> set[str]:
    return {constant for constant in code.co_consts if isinstance(constant, str)}
