"""The execution modes: one object each, in the driver and in workers."""

from __future__ import annotations

import copy
import pickle

import pytest

from penstock.common.configuration.choices import RuntimeExecutionMode
from penstock.engine.plan.passes import PASSES
from penstock.engine.plan.program_pickler import dumps
from penstock.engine.runtime.execution_mode import BATCH, STREAMING, ExecutionMode
from penstock.engine.runtime.task.vertex import LevelSpec

MODES = pytest.mark.parametrize("mode", [STREAMING, BATCH], ids=lambda mode: mode.name)


@MODES
def test_an_unpickled_mode_is_the_mode(mode: ExecutionMode) -> None:
    """A worker would have a third mode, and the plan that a cluster receives would have no passes."""
    level = LevelSpec("job", 0, (1,), [], {}, mode)
    assert pickle.loads(pickle.dumps(level)).mode is mode
    assert pickle.loads(dumps(level)).mode is mode
    assert copy.deepcopy(level).mode is mode
    assert pickle.loads(pickle.dumps(mode)) in PASSES


@MODES
def test_a_mode_has_the_name_that_a_program_sets(mode: ExecutionMode) -> None:
    """The log, REST and the line that `penstock run` prints would name a mode that no setting has."""
    assert RuntimeExecutionMode[mode.name].name == mode.name
