"""Files of Avro as Apache's own package for Python reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from avro.datafile import DataFileReader
from avro.io import DatumReader


def avro_records(path: Path) -> list[Any]:
    """All records, by the schema of the file."""
    with path.open("rb") as stream, DataFileReader(stream, DatumReader()) as reader:
        return list(reader)
