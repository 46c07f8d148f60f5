"""Spark's JVM is kept where a person waits for the next start, and where a program asks for it."""

from __future__ import annotations

import sys
from io import StringIO
from types import ModuleType

import pytest

from penstock.common import Configuration
from penstock.hosts.spark.driver.session import keeps_session

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sessions are kept on Linux only")


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def sits_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    # Not a fixture: pytest sets its own streams before each test.
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    for name in ("stdin", "stderr"):
        monkeypatch.setattr(sys, name, Terminal())


def configured(value: str = "") -> Configuration:
    return Configuration.from_dict({"penstock.spark.keep-session": value} if value else {})


def test_at_a_terminal_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second try of a program would take as long as the first."""
    sits_at_a_terminal(monkeypatch)
    assert keeps_session(configured(), {})
    monkeypatch.setattr(sys, "stdin", StringIO())
    assert not keeps_session(configured(), {}), "a program that reads a pipe belongs to a script"
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    assert keeps_session(configured(), {}), "a notebook has no terminal"


@pytest.mark.parametrize(
    ("value", "environ", "kept"),
    [
        ("false", {}, False),
        ("false", {"PENSTOCK_KEEP_SESSION": "true"}, False),
        ("", {"PENSTOCK_KEEP_SESSION": "false"}, False),
        ("true", {"PENSTOCK_KEEP_SESSION": "false"}, True),
        ("", {"PENSTOCK_KEEP_SESSION": ""}, True),
    ],
)
def test_a_choice_comes_before_the_default(
    monkeypatch: pytest.MonkeyPatch, value: str, environ: dict[str, str], kept: bool
) -> None:
    """A gigabyte of memory would stay for ten minutes, though its owner wants it back."""
    sits_at_a_terminal(monkeypatch)
    assert keeps_session(configured(value), environ) is kept


def test_a_script_keeps_nothing_unless_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run of a scheduler would leave a JVM behind."""
    monkeypatch.setattr(sys, "stderr", StringIO())
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert not keeps_session(configured(), {})
    assert keeps_session(configured(), {"PENSTOCK_KEEP_SESSION": "true"})
    assert keeps_session(configured("true"), {})
