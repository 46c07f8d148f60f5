"""The job that a process runs once while it stands by: what a JVM has run before starts in a third of the time."""

from __future__ import annotations

from penstock.common.job_client import JobClient
from penstock.hosts.spark.job_files import JobFiles
from penstock.service.client.executor import Submission
from penstock.service.client.packed_job import PackedJob, packed
from penstock.service.client.plan_executor import PlanExecutor

_NAME = "warm-up of a standby"
_RECORDS = 1_000


class _Packing(PlanExecutor):
    """Keeps the job as it would be sent."""

    job: PackedJob | None = None

    def execute(self, submission: Submission) -> JobClient:
        """Pack it, and run nothing."""
        self.job, _ = packed(submission)
        return super().execute(submission)


def warm_up_job() -> bytes:
    """A job with one operator of its own that needs one slot, as a client packs it."""
    import msgspec

    from penstock.common import WatermarkStrategy
    from penstock.datastream import StreamExecutionEnvironment
    from penstock.datastream.connectors.number_seq import NumberSequenceSource
    from penstock.service.cli.options import program_context

    executor = _Packing()
    with program_context({"rest.bind-port": "", "execution.checkpointing.interval": "200 ms"}, executor=executor):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(1)
        numbers = NumberSequenceSource(1, _RECORDS)
        env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers").map(str).print()
        env.execute(_NAME)
    job = executor.job
    assert job is not None, "it was executed"
    # It needs nothing but penstock: what is beside this command stays here.
    description = msgspec.structs.replace(job.description, bundle="")
    return msgspec.msgpack.encode(msgspec.structs.replace(job, description=description, files=JobFiles()))
