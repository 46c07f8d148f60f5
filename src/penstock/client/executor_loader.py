"""Which executor runs a job: the one that `execution.target` names. Flink: PipelineExecutorServiceLoader."""

from __future__ import annotations

from importlib import import_module

from penstock.client.executor import PipelineExecutor
from penstock.common import options
from penstock.common.configuration import Configuration
from penstock.common.errors import ConfigurationError

_EXECUTORS = {
    "local": ("penstock.client.local_executor", "LocalExecutor"),
    "remote": ("penstock.client.remote_executor", "RemoteExecutor"),
}


def load_executor(configuration: Configuration) -> PipelineExecutor:
    """A new executor; in a notebook it shows its jobs. Raises ConfigurationError if `execution.target` names none."""
    target = configuration.get(options.TARGET)
    if target not in _EXECUTORS:
        raise ConfigurationError(f"execution.target is one of {', '.join(_EXECUTORS)}, got {target!r}")
    # Loaded when a job starts and not before: Spark and the control plane take longer to import than all of the API,
    # which each worker imports.
    module, name = _EXECUTORS[target]
    executor: PipelineExecutor = getattr(import_module(module), name)()
    from penstock.client.notebook_executor import NotebookExecutor, notebook_display

    display = notebook_display()
    return executor if display is None else NotebookExecutor(executor, display)
