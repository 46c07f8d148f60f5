"""What users are told to install is what the extras install."""

from __future__ import annotations

import tomllib
from pathlib import Path

from penstock.common.doors import extras

ROOT = Path(__file__).parents[4]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OF_THE_PROJECT = {"bench", "corpora", "dev"}
"""Extras for work on the project: commands of the Makefile install them."""


def test_messages_name_the_extras() -> None:
    """A user would be told to install what is not there."""
    told = {value for name, value in vars(extras).items() if name.isupper()}
    known = {f"{PROJECT['name']}[{extra}]" for extra in PROJECT["optional-dependencies"]}
    assert told <= known
    assert known - told == {f"{PROJECT['name']}[{extra}]" for extra in OF_THE_PROJECT}, "an extra nobody is told of"


def test_the_development_extra_brings_the_others() -> None:
    """`pip install '.[dev]'` would install another project of that name."""
    every = "[adbc,avro,dashboard,delta,iceberg,kafka,otel,polars,postgres,protobuf,redis,rocksdb,s3,sql,zookeeper]"
    assert PROJECT["name"] + every in PROJECT["optional-dependencies"]["dev"]


def test_the_first_page_names_the_extras() -> None:
    """A user would find out by an error that there is one."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    users = PROJECT["optional-dependencies"].keys() - OF_THE_PROJECT
    assert not {extra for extra in users if f"'.[{extra}]'" not in page}
