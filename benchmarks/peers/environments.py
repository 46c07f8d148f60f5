"""The peers' environments, created on first use under .venv-peers/ and reused: two venvs and one jar.

PyFlink and Spark determine the versions of their dependencies; packages come only from the index for which pip is
configured.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.common.errors import ConfigurationError
from penstock.hosts.spark.driver.java import find_java, quiet_home

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PLACE = ROOT / ".venv-peers"

# setuptools: apache-beam 2.61 needs pkg_resources, which venvs of Python 3.12 and newer do not include.
PYFLINK = ("apache-flink==2.3.0", "setuptools<80")
SPARK = ("pyspark>=4.3,<4.4", "pandas>=2.2,<3", "pyarrow>=18", "numpy", "protobuf>=6.33,<8")


class NotThereError(Exception):
    """A peer can't run here; the message states the reason."""


@dataclass(frozen=True)
class Environments:
    """Programs and settings of all available peers, and the reasons why others are unavailable."""

    python: Mapping[str, Path]
    jar: Path | None
    flink_lib: Path | None
    missing: Mapping[str, str]
    variables: Mapping[str, str]

    def variables_of(self, peer: str) -> dict[str, str]:
        """Return the environment variables of its processes in addition to the inherited ones."""
        variables = dict(self.variables)
        if peer in self.python:
            # As in an activated venv: PyFlink's embedded interpreter uses it to find its packages.
            variables["PATH"] = os.pathsep.join([str(self.python[peer].parent), os.environ["PATH"]])
            variables["VIRTUAL_ENV"] = str(self.python[peer].parents[1])
        if peer == "pyflink":
            # Otherwise functions of a local job run in the client's process.
            variables["_python_worker_execution_mode"] = "process"
        return variables


def prepare(peers: Sequence[str]) -> Environments:
    """Prepare the environments of these peers (`penstock`, `pyflink`, `flink-java`, `spark`)."""
    python: dict[str, Path] = {"penstock": Path(sys.executable)}
    missing: dict[str, str] = {}
    variables = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)])}
    try:
        variables["JAVA_HOME"] = str(quiet_home(find_java(os.environ), os.environ))
    except ConfigurationError as error:
        missing.update(dict.fromkeys(peers, str(error)))
        return Environments(python, None, None, missing, variables)
    for name, requirements, users in (("pyflink", PYFLINK, ("pyflink", "flink-java")), ("spark", SPARK, ("spark",))):
        if not set(users) & set(peers):
            continue
        try:
            python[name] = _venv(name, requirements)
        except NotThereError as error:
            missing.update(dict.fromkeys(users, str(error)))
    jar = lib = None
    if "pyflink" in python:
        lib = _flink_lib(python["pyflink"])
        try:
            jar = compiled("FlinkJobs", f"{lib}/*", PLACE)
        except NotThereError as error:
            missing["flink-java"] = str(error)
    return Environments(python, jar, lib, missing, variables)


def flink_home() -> Path:
    """The distribution of Flink within PyFlink's wheel: bin/flink, and lib/ with its jars. Raises NotThereError."""
    return _flink_lib(_venv("pyflink", PYFLINK)).parent


def _venv(name: str, requirements: Sequence[str]) -> Path:
    place = PLACE / name
    python = place / "bin" / "python"
    done = place / "installed.txt"
    if done.exists() and done.read_text(encoding="utf-8") == "\n".join(requirements):
        return python
    base = _base_python()
    PLACE.mkdir(exist_ok=True)
    (PLACE / ".gitignore").write_text("*\n", encoding="utf-8")
    where = place.relative_to(ROOT)
    print(f"Installing {', '.join(requirements)} into {where} (a minute or two) ...", file=sys.stderr, flush=True)
    shutil.rmtree(place, ignore_errors=True)
    _run([base, "-m", "venv", str(place)])
    _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements])
    done.write_text("\n".join(requirements), encoding="utf-8")
    return python


def _base_python() -> str:
    """Return the newest Python for which PyFlink has wheels, preferring penstock's own."""
    if sys.version_info[:2] in ((3, 11), (3, 12)):
        return sys.executable
    for name in ("python3.12", "python3.11"):
        if found := shutil.which(name):
            return found
    raise NotThereError("PyFlink 2.3 has wheels for Python 3.9 to 3.12, but neither 3.11 nor 3.12 is installed")


def _flink_lib(python: Path) -> Path:
    code = "import importlib.util as u; print(u.find_spec('pyflink').submodule_search_locations[0])"
    return Path(_run([str(python), "-c", code]).strip(), "lib")


def compiled(name: str, classpath: str, place: Path) -> Path:
    """Compile a program of this directory, in Java, into a jar at `place`. Raises NotThereError."""
    source, jar = HERE / f"{name}.java", place / f"{_dashed(name)}.jar"
    if jar.exists() and jar.stat().st_mtime > source.stat().st_mtime:
        return jar
    compiler, archiver = _tool("javac"), _tool("jar")
    if compiler is None or archiver is None:
        raise NotThereError("no JDK: javac is neither in JAVA_HOME nor on the PATH")
    classes = place / f"classes-{_dashed(name)}"
    shutil.rmtree(classes, ignore_errors=True)
    _run([compiler, "-nowarn", "--release", "17", "-d", str(classes), "-cp", classpath, str(source)])
    _run([archiver, "cf", str(jar), "-C", str(classes), "."])
    return jar


def _dashed(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def _tool(name: str) -> str | None:
    home = os.environ.get("JAVA_HOME")
    return (shutil.which(name, path=str(Path(home, "bin"))) if home else None) or shutil.which(name)


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotThereError(f"{' '.join(command[:4])} … failed:\n{done.stderr.strip()[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    print(flink_home())
