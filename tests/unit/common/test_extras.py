"""What users are told to install is what the extras install."""

from __future__ import annotations

import tomllib
from pathlib import Path

from penstock.common import extras

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_messages_name_the_packages_of_the_extras() -> None:
    """A user would install a version that does not work with this one."""
    optional = PROJECT["optional-dependencies"]
    assert optional["avro"] == [extras.AVRO]
    assert optional["rocksdb"] == [extras.ROCKSDB]
    assert optional["kafka"] == [extras.KAFKA]
    assert optional["postgres"] == [extras.POSTGRES]
    assert optional["redis"] == [extras.REDIS]
    assert optional["s3"] == [extras.S3]
    assert optional["demo"] == [extras.DEMO]


def test_the_development_extra_brings_the_others() -> None:
    """`pip install '.[dev]'` would install another project of that name."""
    assert f"{PROJECT['name']}[avro,kafka,postgres,redis,rocksdb,s3]" in PROJECT["optional-dependencies"]["dev"]
