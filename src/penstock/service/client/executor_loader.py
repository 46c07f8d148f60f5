"""Choose the executor that `execution.target` names. Flink: PipelineExecutorServiceLoader."""

from __future__ import annotations

from importlib import import_module

from penstock.common.configuration import Configuration, options
from penstock.common.errors import ConfigurationError
from penstock.service.client.executor import PipelineExecutor

_EXECUTORS = {
    "local": ("penstock.service.client.local_executor", "LocalExecutor"),
    "remote": ("penstock.service.client.remote_executor", "RemoteExecutor"),
}


def load_executor(configuration: Configuration, is_watched: bool = False) -> PipelineExecutor:
    """Return a new executor. It shows jobs in a notebook, and their start on a terminal, unless it `is_watched`.

    `is_watched`: another executor shows the jobs. Raises ConfigurationError if `execution.target` names no executor.
    """
    target = configuration.get(options.TARGET)
    if target not in _EXECUTORS:
        raise ConfigurationError(f"execution.target is one of {', '.join(_EXECUTORS)}, got {target!r}")
    # Loaded when a job starts, not before: Spark and the control plane take longer to import than the whole API, which
    # each worker imports.
    module, name = _EXECUTORS[target]
    executor: PipelineExecutor = getattr(import_module(module), name)()
    if is_watched:
        return executor
    from penstock.service.client.live_line import LiveLine
    from penstock.service.client.notebook_executor import NotebookExecutor, notebook_display
    from penstock.service.client.terminal_executor import TerminalExecutor

    display = notebook_display()
    if display is not None:
        return NotebookExecutor(executor, display)
    line = LiveLine()
    return TerminalExecutor(executor, line) if line.is_on else executor
