"""The live line stays below what the program prints, and is nowhere but on a terminal."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import sys
import termios

import pytest

from penstock.service.client.live_line import LiveLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal that both streams of the program are on."""
    made = Terminal()
    monkeypatch.setattr(sys, "stdout", made)
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "20")
    return made


def screen(written: str) -> list[str]:
    """What is seen: the lines of a terminal that knows `begin of line` and `clear to the end`."""
    lines = [""]
    for part in written.replace("\r\x1b[K", "\0").replace("\n", "\n\1").split("\n"):
        text = part.removeprefix("\1")
        if part.startswith("\1"):
            lines.append("")
        for piece_number, piece in enumerate(text.split("\0")):
            lines[-1] = piece if piece_number else lines[-1] + piece
    return lines


def test_what_is_printed_comes_above_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results would be written into the line, or the line into results."""
    terminal = terminal_of(monkeypatch)
    with LiveLine() as line:
        line.show("running 1 s")
        print("result 1")
        line.show("running 2 s")
        assert screen(terminal.getvalue()) == ["result 1", "running 2 s"]
        print("result 2")
        line.show("running 3 s, and a very long rest")
        assert screen(terminal.getvalue()) == ["result 1", "result 2", "running 3 s, and a "]
    assert screen(terminal.getvalue()) == ["result 1", "result 2", ""]
    assert sys.stdout is terminal


def test_a_line_of_the_program_is_not_cut_in_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt, or dots that the program writes one by one, would be overwritten."""
    terminal = terminal_of(monkeypatch)
    with LiveLine() as line:
        sys.stderr.write("name: ")
        line.show("running 1 s")
        assert screen(terminal.getvalue()) == ["name: "]
        sys.stderr.writelines(["x", "\n"])
        line.show("running 2 s")
        assert screen(terminal.getvalue()) == ["name: x", "running 2 s"]


def test_without_a_terminal_there_is_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Log files would be full of control characters."""
    streams = sys.stdout, sys.stderr
    with LiveLine() as line:
        assert (sys.stdout, sys.stderr) == streams
        line.show("running")
        print("result")
    assert capsys.readouterr() == ("result\n", "")


def test_a_piped_output_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """`penstock run job.py > results` would have the line in its file."""
    main, side = pty.openpty()
    piped = io.StringIO()
    monkeypatch.setattr(sys, "stdout", piped)
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(side, "w") as terminal, LiveLine(terminal) as line:
        line.show("running")
        print("result")
        line.show("running")
    os.close(main)
    assert piped.getvalue() == "result\n"


def test_any_name_fits_on_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job with a Chinese name, or with a line break in it, would leave a line behind twice a second."""
    terminal = terminal_of(monkeypatch)
    with LiveLine() as line:
        line.show("\u6d41\u91cf\u7edf\u8ba1\u4f5c\u4e1a\u540d\u79f0\u5f88\u957f running")
        assert screen(terminal.getvalue()) == ["\u6d41\u91cf\u7edf\u8ba1\u4f5c\u4e1a\u540d\u79f0\u5f88 "]
        line.show("two\nlines\x1b[31m")
        assert screen(terminal.getvalue()) == ["two lines [31m"]


def test_the_line_is_as_wide_as_its_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `penstock run job.py > results` on a narrow terminal each second line would be left behind."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 30, 0, 0))
    monkeypatch.setattr(sys, "__stdout__", None)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(side, "w") as terminal, LiveLine(terminal) as line:
        line.show("x" * 100)
        shown = os.read(main, 1000).decode()
    os.close(main)
    assert shown.count("x") == 29


def test_a_terminal_that_is_closed_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job whose terminal was closed would be ended by its own live line, or print a traceback for each."""
    main, side = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    terminal = os.fdopen(side, "w")
    with LiveLine(terminal) as line:
        os.close(main)
        line.show("running")
        line.clear()
    with pytest.raises(OSError, match="Input/output"):
        terminal.close()
