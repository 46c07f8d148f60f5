"""Pack the job that a standby runs once: a JVM that has run a job before starts the next in a third of the time."""

from __future__ import annotations

from penstock.common.job_client import JobClient
from penstock.hosts.spark.job_files import JobFiles
from penstock.service.client.executor import Submission
from penstock.service.client.packed_job import PackedJob, packed
from penstock.service.client.plan_executor import PlanExecutor

_NAME = "warm-up of a standby"
_RECORDS = 1_000


class _Packing(PlanExecutor):
    """Keep the job as it would be sent to a cluster."""

    job: PackedJob | None = None

    def execute(self, submission: Submission) -> JobClient:
        """Pack the job without running it."""
        self.job, _ = packed(submission)
        return super().execute(submission)


def warm_up_job() -> bytes:
    """Return a packed job with one operator, which needs one slot."""
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
    assert job is not None, "execute() packs it"
    # The job needs only penstock, so the files next to this command are not sent.
    description = msgspec.structs.replace(job.description, bundle="")
    return msgspec.msgpack.encode(msgspec.structs.replace(job, description=description, files=JobFiles()))
