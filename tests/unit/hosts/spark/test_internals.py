"""What penstock assumes of PySpark, as far as it shows without a JVM; and what happens where it does not hold."""

from __future__ import annotations

import ast
import json
import logging
import os
import pickle
import subprocess
import sys
import threading
import types
import zipfile
from pathlib import Path

import pyspark
import pytest
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
from tests.unit.hosts.spark.worker_ends import Worker, wrapped

from penstock.common.configuration.choices import SparkTransport
from penstock.common.errors import ConfigurationError
from penstock.hosts.spark.driver.pipelined_query import usable_transport
from penstock.hosts.spark.internals.assumptions import ASSUMPTIONS
from penstock.hosts.spark.internals.error_texts import TOO_FEW_SLOTS
from penstock.hosts.spark.internals.settings import DISABLED, FIXED_AT_START, missing_settings
from penstock.hosts.spark.internals.version import SUPPORTED, check_version
from penstock.hosts.spark.internals.worker_streams import WorkerStreams, incompatibility
from penstock.hosts.spark.rows import to_batch

ROOT = Path(__file__).parents[4]
SPARK = ROOT / "src" / "penstock" / "hosts" / "spark"
JARS = Path(pyspark.__file__).parent / "jars"
PRIVATE = {"_jvm", "_jsc", "_jsparkSession", "_jdf", "_jconf", "_gateway", "_stackTrace", "_getframe", "f_locals"}
OWN = {("stack_sampler.py", "f_locals")}
"""What looks like it and is not: the local variables of a frame of our own."""


def names_of_tests() -> set[str]:
    folders = [ROOT / "tests" / "unit" / "hosts" / "spark", ROOT / "tests" / "spark"]
    return {
        node.name
        for folder in folders
        for path in folder.glob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }


def entry(jar: str, name: str) -> bytes:
    (path,) = JARS.glob(f"{jar}_*.jar")
    with zipfile.ZipFile(path) as archive:
        return archive.read(name)


def test_each_assumption_has_a_test() -> None:
    """A new version of Spark would break jobs where nothing has looked."""
    names = [assumption.name for assumption in ASSUMPTIONS]
    assert len(names) == len(set(names))
    assert not {f"test_assumption_{name}" for name in names} ^ {
        name for name in names_of_tests() if name.startswith("test_assumption_")
    }


def test_an_assumption_names_the_module_that_uses_it() -> None:
    """A reader of the list would look for the code in vain."""
    assert not [a.name for a in ASSUMPTIONS if not (SPARK / a.used_by).is_file()]
    assert {a.checked_with.rpartition(".")[0] for a in ASSUMPTIONS} == {SUPPORTED}


def test_private_parts_of_spark_are_used_in_one_package_only() -> None:
    """The list of assumptions would be incomplete: what is not on it breaks without warning."""
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")}
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.attr}"
        for path, text in texts.items()
        if path.parent != SPARK / "internals" and any(name in text for name in PRIVATE)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and node.attr in PRIVATE and (path.name, node.attr) not in OWN
    ]
    assert not found


# ---- the version


def test_the_version_of_the_checks_is_let_in() -> None:
    """Nothing would run."""
    check_version()
    check_version("4.3.0")
    check_version("4.3.17.dev0")


@pytest.mark.parametrize("version", ["4.2.9", "4.4.0", "3.5.1", "5.0.0", "4.30.0"])
def test_another_version_is_refused_with_what_to_install(version) -> None:
    """A job would fail somewhere inside Spark, or be slow, without a stated reason."""
    with pytest.raises(ConfigurationError) as caught:
        check_version(version, "this executor")
    assert f"this executor has PySpark {version}" in str(caught.value)
    assert "pip install 'pyspark>=4.3,<4.4'" in str(caught.value)


# ---- the worker's frame


def caller(text: str) -> types.ModuleType:
    """A stand-in for pyspark.worker."""
    module = types.ModuleType("pyspark.worker")
    exec(text, module.__dict__)
    return module


EXPECTED = """
def invoke_udf(func, input_data_stream, outfile):
    import os
    is_pipelined = os.environ.get("SPARK_PIPELINED_UDF") == "1"
    def process():
        return func(input_data_stream, outfile)
    return process()
"""


def test_assumption_worker_frame() -> None:
    """Without these names the pipes can't be taken, and all jobs are slower."""
    assert "pyspark.worker" not in sys.modules or incompatibility() is None
    import pyspark.worker

    code = pyspark.worker.invoke_udf.__code__
    nested = {constant.co_name: constant for constant in code.co_consts if isinstance(constant, types.CodeType)}
    assert {"input_data_stream", "outfile"} <= set(nested["process"].co_freevars)
    assert incompatibility() is None


def test_the_frame_is_looked_at_without_running_pysparks_worker() -> None:
    """Each program would start most of a second later."""
    before = "pyspark.worker" in sys.modules
    assert incompatibility() is None
    assert ("pyspark.worker" in sys.modules) == before


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has no function invoke_udf"),
        (EXPECTED.replace("SPARK_PIPELINED_UDF", "SPARK_OTHER"), "does not read SPARK_PIPELINED_UDF"),
        (EXPECTED.replace("process", "run"), "no function process"),
        (EXPECTED.replace("outfile", "out"), "variables input_data_stream and outfile"),
        (EXPECTED.replace("input_data_stream", "stream"), "variables input_data_stream and outfile"),
    ],
)
def test_a_frame_of_another_shape_means_the_plain_transport(text, reason, monkeypatch, caplog) -> None:
    """After an update of PySpark no job would run at all."""
    monkeypatch.setitem(sys.modules, "pyspark.worker", caller(text))
    monkeypatch.setenv("SPARK_PIPELINED_UDF", "1")
    assert reason in (incompatibility() or "")
    with caplog.at_level(logging.WARNING):
        streams = pickle.loads(pickle.dumps(WorkerStreams()))
    assert not streams.claimed
    assert os.environ["SPARK_PIPELINED_UDF"] == "1", "PySpark has to read for the iterator, and to flush"
    assert len(caplog.records) == 1


def test_the_driver_warns_once_and_chooses_the_plain_transport(monkeypatch, caplog) -> None:
    """Jobs would be slower than the documentation says, or say so at each restart."""
    assert usable_transport(SparkTransport.PIPES) is SparkTransport.PIPES
    # Another reason than that of tests on Spark, which may have run in this process.
    monkeypatch.setitem(sys.modules, "pyspark.worker", caller("def invoke_udf(): pass"))
    with caplog.at_level(logging.WARNING):
        assert usable_transport(SparkTransport.PIPES) is SparkTransport.ITERATORS
        assert usable_transport(SparkTransport.PIPES) is SparkTransport.ITERATORS
        assert usable_transport(SparkTransport.ITERATORS) is SparkTransport.ITERATORS
    (record,) = caplog.records
    assert "penstock.spark.transport: iterators" in record.getMessage()
    assert "invoke_udf does not read" in record.getMessage()


def test_streams_are_found_in_the_frame_of_the_call(monkeypatch) -> None:
    """A slot would have nothing to read."""
    monkeypatch.setenv("SPARK_PIPELINED_UDF", "1")
    module = caller(EXPECTED)
    monkeypatch.setitem(sys.modules, "pyspark.worker", module)
    streams = pickle.loads(pickle.dumps(WorkerStreams()))
    assert streams.claimed
    with Path(os.devnull).open("rb") as incoming, Path(os.devnull).open("wb") as outgoing:
        assert module.invoke_udf(lambda *_: streams.find(), incoming, outgoing) == (incoming, outgoing)
        with pytest.raises(ConfigurationError, match=r"penstock\.spark\.transport: iterators"):
            module.invoke_udf(lambda *_: streams.find(), incoming, object())


def test_outside_of_a_worker_there_are_no_streams() -> None:
    """A slot would wait without end rather than say what to do."""
    with pytest.raises(ConfigurationError, match=r"penstock\.spark\.transport: iterators"):
        WorkerStreams(claimed=True).find()


def test_assumption_reading_thread(monkeypatch) -> None:
    """Both threads would read the same pipe, and each would get half of a batch."""
    import pyspark.worker

    code = pyspark.worker.invoke_udf.__code__
    assert "SPARK_PIPELINED_UDF" in code.co_consts
    # In the order in which they are named: the function is read before the switch is looked at.
    names = list(code.co_names)
    assert names.index("read_udfs") < names.index("get_data_stream")
    monkeypatch.setenv("SPARK_PIPELINED_UDF", "1")
    data = pickle.dumps(WorkerStreams())
    assert os.environ["SPARK_PIPELINED_UDF"] == "1", "only unpickling in a worker claims"
    assert pickle.loads(data).claimed
    assert os.environ["SPARK_PIPELINED_UDF"] == "0"


# ---- streams


def test_assumption_arrow_stream() -> None:
    """Spark would fail the query at the second row of a task."""
    worker = Worker(SparkTransport.PIPES)
    messages = [[(1, b"a")], [(2, b"b")]]
    thread = threading.Thread(target=worker.write, args=messages)
    thread.start()
    # What PySpark reads on the other end: its own deserializer, over what both have written.
    batches = ArrowStreamSerializer().load_stream(worker.jvm.socket.makefile("rb"))
    assert [next(batches).to_pylist() for _ in messages] == [
        [{"_0": {"target": target, "buffer": buffer}} for target, buffer in rows] for rows in messages
    ]
    thread.join()
    worker.close()


def test_assumption_flush_per_batch() -> None:
    """The last row of a burst would stay in PySpark's buffer until the next one."""
    import pyspark.worker

    assert "_flush_per_batch" in pyspark.worker.invoke_udf.__code__.co_names
    serializer = ArrowStreamSerializer(flush_per_batch=True)
    assert serializer._flush_per_batch, "what `invoke_udf` sets is what the serializer looks at"
    flushed = []

    class Stream:
        closed = False

        def write(self, data) -> int:
            return len(data)

        def flush(self) -> None:
            flushed.append(True)

    serializer.dump_stream(iter([wrapped(to_batch([(0, b"x")]))] * 3), Stream())
    assert len(flushed) >= 3


# ---- settings


def test_a_session_with_all_settings_is_accepted() -> None:
    """A session that is as asked for would be refused."""
    settings = {key: value.upper() for key, value in FIXED_AT_START.items()}
    assert missing_settings(lambda key, default: settings.get(key, default)) == {}
    settings |= dict.fromkeys(DISABLED, "False")
    assert missing_settings(lambda key, default: settings.get(key, default)) == {}


def test_each_setting_that_is_missing_is_named_with_its_value() -> None:
    """The user would add one setting after the other, and start Spark each time."""
    assert missing_settings(lambda key, default: default) == FIXED_AT_START
    given = {**FIXED_AT_START, "spark.buffer.size": "65536", "spark.speculation": "true"}
    assert missing_settings(lambda key, default: given.get(key, default)) == {
        "spark.buffer.size": "64",
        "spark.speculation": "false",
    }


# ---- what PySpark knows of the JVM

STOPPED = """
from types import SimpleNamespace
from pyspark import SparkContext
from penstock.hosts.spark.internals.jvm import is_alive

context = SparkContext.__new__(SparkContext)
context._jsc = SimpleNamespace(stop=lambda: None)
session = SimpleNamespace(sparkContext=context)
alive = is_alive(session)
context.stop()
print(alive, is_alive(session))
"""


def test_assumption_context_of_session() -> None:
    """A program's second job would be given a session that has stopped. Not here: it ends the context of a process."""
    result = subprocess.run([sys.executable, "-c", STOPPED], capture_output=True, text=True, check=True)
    assert result.stdout == "True False\n"


# ---- texts in Spark's jars


def test_assumption_error_texts() -> None:
    """A job that finds too few slots would fail with Spark's text, and no word on what to do."""
    conditions = json.loads(entry("spark-common-utils", "error/error-conditions.json"))
    assert TOO_FEW_SLOTS in conditions


def test_assumption_vector_module() -> None:
    """The JVM would not start on the JRE that comes with penstock."""
    options = entry("spark-launcher", "org/apache/spark/launcher/JavaModuleOptions.class")
    assert options.count(b"--add-modules") == 1
    assert b"--add-modules=jdk.incubator.vector" in options


def test_assumption_py4j_log() -> None:
    """Tracebacks of Py4J's would cover what a job says of itself when its JVM ends."""
    from py4j import java_gateway

    source = ast.parse(Path(java_gateway.__file__).read_text(encoding="utf-8"))
    uses = [
        node.attr
        for node in ast.walk(source)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "logging"
    ]
    assert {"info", "exception"} == set(uses) & {"debug", "info", "warning", "error", "exception", "critical"}
