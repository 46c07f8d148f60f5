"""What PyFlink's environment has and penstock's can't: refused with what to do."""

from __future__ import annotations

import pytest

from penstock.common.errors import ProgramError
from penstock.datastream import StreamExecutionEnvironment


def test_jars_are_refused() -> None:
    """A PyFlink program would run without its connectors, or end in an AttributeError."""
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(ProgramError, match="no part of a job runs in Java here"):
        env.add_jars("file:///connector.jar")
    with pytest.raises(ProgramError, match=r"spark\.jars"):
        env.add_classpaths("file:///connector.jar")
