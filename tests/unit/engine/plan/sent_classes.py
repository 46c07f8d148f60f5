"""Classes that stand in a job's script, sent to a process that is no child of it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

SCRIPT = """
from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import pickle
import sys
import typing
import weakref
from typing import Generic, NamedTuple, Protocol, TypedDict, TypeVar

import msgspec

from penstock.engine.plan import program_pickler
from penstock.engine.plan.pickling import dump_main_classes
{imports}

T = TypeVar("T")
Minutes = int
{kind}

if {derived}:
    # What msgspec derives from a class it keeps in the class.
    msgspec.json.Decoder(Kind)
program = program_pickler.dumps({{"record": lambda: Kind(**SAMPLE), "check": check}})
records = pickle.dumps([Kind(**SAMPLE)])
sys.stdout.buffer.write(pickle.dumps((dump_main_classes(), program, records)))
"""

WORKER = """
import pickle, sys
from penstock.engine.plan.pickling import load_main_classes
classes, program, records = pickle.loads(sys.stdin.buffer.read())
load_main_classes(classes)
program = pickle.loads(program)
(record,) = pickle.loads(records)
import __main__
kind = vars(__main__).get("Kind")
made = program["record"]()
assert isinstance(made, dict) or type(record) is type(made) is kind, (type(record), kind)
assert record == made, (record, made)
assert pickle.loads(pickle.dumps(record)) == record
program["check"](record)
"""


def check_arrival(kind: str, directory: Path, imports: str = "", derived: bool = False) -> None:
    """Runs a script with the class `Kind`, and in another process its `check` of a record that was made of SAMPLE.

    `derived`: whether msgspec keeps a decoder in the class before it is sent.
    """
    script = directory / "job.py"
    script.write_text(SCRIPT.format(imports=imports, kind=kind, derived=derived))
    sent = subprocess.run([sys.executable, str(script)], capture_output=True, check=False)
    assert sent.returncode == 0, sent.stderr.decode()
    assert len(pickle.loads(sent.stdout)) == 3
    done = subprocess.run([sys.executable, "-c", WORKER], input=sent.stdout, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
