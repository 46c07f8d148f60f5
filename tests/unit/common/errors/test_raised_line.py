"""What an error says in one line."""

from __future__ import annotations

import pytest

from penstock.common.errors.user_traceback import raised_line

TRACEBACK = """operator 'm', in map
  value: 3
  Traceback (most recent call last):
    File "a.py", line 1, in f
      return 1 / v
             ~~^~~
  ZeroDivisionError: division by zero
  The above exception was noted: here"""
OF_A_DATABASE = """operator 'out', in PostgresSink.prepare_commit
  penstock.PostgresError: the server has refused the row (1, 'a'): column "v" does not exist
  LINE 1: INSERT INTO "dst" ("id", "v") VALUES ($1, $2)
                                   ^
  in INSERT INTO "dst" ("id", "v") VALUES (%s, %s)"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (TRACEBACK, "ZeroDivisionError: division by zero"),
        (f'{TRACEBACK}\n  During handling …\n    File "b.py", line 2\n  KeyError: 4', "KeyError: 4"),
        (OF_A_DATABASE, "penstock.PostgresError: the server has refused the row (1, 'a'): column \"v\" does not exist"),
        ("there is no file\nIn / there is: in.txt", ""),
        ("away", ""),
        ("", ""),
        ('Traceback (most recent call last):\n  File "a.py", line 1\n    cut', ""),
    ],
)
def test_the_line_that_says_most(text: str, line: str) -> None:
    """A failure that repeats was told by the last line of it: the statement, and not what was wrong with it."""
    assert raised_line(text) == line
