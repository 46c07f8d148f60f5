"""Wheels as pip takes them, made of a few lines."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path


def pack(path: Path, files: Mapping[str, str]) -> None:
    """A zip of these files, by their names in it."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


def pack_wheel(folder: Path, package: str, version: str, files: Mapping[str, str]) -> None:
    """A wheel of these modules. `package`: also the first part of its file's name."""
    info = f"{package}-{version}.dist-info"
    described = f"Metadata-Version: 2.1\nName: {package.replace('_', '-')}\nVersion: {version}\n"
    pack(
        folder / f"{package}-{version}-py3-none-any.whl",
        {
            **files,
            f"{info}/METADATA": described,
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/RECORD": "",
        },
    )
