"""One file of a corpus: read by a reader of penstock and by a reference, and compared."""

from __future__ import annotations

import datetime
import enum
import math
import time
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from penstock.common.errors import SourceError
from penstock.connectors.files.formats.format import FileFormat
from penstock.connectors.files.split import FoundFile, whole

Read = Callable[[], Any]


class Verdict(enum.Enum):
    """What became of a file. The last four are faults, unless they are known differences."""

    SAME = "same rows"
    REFUSED = "refused by both"
    NOT_COMPARED = "not compared"
    REFUSED_HERE = "refused here"
    READ_HERE = "refused by the reference"
    OTHER_ROWS = "other rows"
    BARE_ERROR = "an error that is not a SourceError, or names no file"


class NotComparedError(Exception):
    """There is nothing to compare: no reference, or no setting of penstock for what the reference reads by."""


class Case(NamedTuple):
    """`ours` and `reference` return values that are compared; `must_name`: what an error of ours has in its text."""

    name: str
    ours: Read
    reference: Read
    must_name: str


class Outcome(NamedTuple):
    """`detail`: the first difference, or the errors."""

    name: str
    verdict: Verdict
    detail: str
    seconds: float = 0.0


def judged(case: Case) -> Outcome:
    """Read the file by both."""
    began = time.monotonic()
    return _judged(case)._replace(seconds=time.monotonic() - began)


def _judged(case: Case) -> Outcome:
    try:
        ours = case.ours()
    except NotComparedError as error:
        return Outcome(case.name, Verdict.NOT_COMPARED, str(error))
    except SourceError as error:
        if case.must_name not in str(error):
            return Outcome(case.name, Verdict.BARE_ERROR, f"{error}")
        ours = error
    except Exception as error:
        return Outcome(case.name, Verdict.BARE_ERROR, f"{type(error).__name__}: {error}")
    try:
        reference = case.reference()
    except NotComparedError as error:
        return Outcome(case.name, Verdict.NOT_COMPARED, str(error))
    except Exception as error:
        is_refused = isinstance(ours, Exception)
        detail = f"{type(error).__name__}: {str(error)[:300]}"
        return Outcome(case.name, Verdict.REFUSED if is_refused else Verdict.READ_HERE, detail)
    if isinstance(ours, Exception):
        return Outcome(case.name, Verdict.REFUSED_HERE, str(ours)[:300])
    one, other = plain(ours), plain(reference)
    if one == other:
        return Outcome(case.name, Verdict.SAME, "")
    return Outcome(case.name, Verdict.OTHER_ROWS, _first_difference(one, other))


def records(file_format: FileFormat, path: Path) -> list[Any]:
    """All records of a file as a job reads them, after the check at submission."""
    file = FoundFile(str(path), path.stat().st_size)
    file_format.check(file)
    return [value for chunk in file_format.read(whole(file), lambda count: None) for value in chunk.values]


def plain(value: Any) -> Any:
    """A value in the one form in which two readers' values are compared."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, Decimal):
        return value.normalize() if value.is_finite() else str(value)
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, Mapping):
        return {plain(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


def _first_difference(ours: Any, reference: Any) -> str:
    if isinstance(ours, list) and isinstance(reference, list):
        if len(ours) != len(reference):
            return f"{len(ours)} rows, the reference has {len(reference)}"
        row = next(row for row in range(len(ours)) if ours[row] != reference[row])
        return f"row {row}: {_short(ours[row])}, the reference has {_short(reference[row])}"
    return f"{_short(ours)}, the reference has {_short(reference)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}..."
