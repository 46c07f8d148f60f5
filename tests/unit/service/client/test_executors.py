"""Which executor runs a job, and what each of them does with it."""

from __future__ import annotations

import logging
import socket

import pytest

from penstock.common.configuration import Configuration
from penstock.common.errors import ConfigurationError
from penstock.common.job_client import JobClient
from penstock.common.job_status import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.service.client.context_environment import ContextEnvironment, as_context, context_environment
from penstock.service.client.executor import PipelineExecutor, Submission
from penstock.service.client.executor_loader import load_executor
from penstock.service.client.local_executor import LocalExecutor
from penstock.service.client.plan_executor import PlanExecutor
from penstock.service.client.remote_executor import RemoteExecutor
from penstock.service.client.rest_client import UnreachableError


class Refusing(PipelineExecutor):
    def execute(self, submission: Submission) -> JobClient:
        raise RuntimeError(submission.graph.name)


def configuration(**settings: str) -> Configuration:
    made = Configuration()
    for key, value in settings.items():
        made.set_string(key.replace("_", "."), value)
    return made


def program(executor: PipelineExecutor | None = None, **settings: str) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment(configuration(**settings), executor=executor)
    env.from_collection([1, 2]).map(lambda n: n + 1).print()
    return env


def test_the_target_names_the_executor() -> None:
    """A job would run somewhere else than where its user wants it."""
    assert type(load_executor(configuration())) is LocalExecutor
    assert type(load_executor(configuration(execution_target="local"))) is LocalExecutor
    assert type(load_executor(configuration(execution_target="remote"))) is RemoteExecutor


def test_an_unknown_target_is_refused() -> None:
    """A typing error in the target would run the job on this machine."""
    with pytest.raises(ConfigurationError, match="one of local, remote, got 'yarn-session'"):
        program(execution_target="yarn-session").execute()


def test_a_cluster_that_is_not_there_is_told() -> None:
    """The user would wait for a cluster that does not exist."""
    with pytest.raises(ConfigurationError, match=r"the cluster at 127.0.0.1:9 is not known.*penstock cluster status"):
        program(execution_target="remote", rest_address="127.0.0.1", rest_port="9").execute("report")


def test_a_cluster_that_is_gone_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user whose cluster was killed would read of a refused connection alone."""
    monkeypatch.setenv("PENSTOCK_REST_TOKEN", "of the one that was there")
    with socket.socket() as bound, pytest.raises(UnreachableError, match=r"Is the cluster running\? penstock cluster"):
        bound.bind(("127.0.0.1", 0))
        port = str(bound.getsockname()[1])
        program(execution_target="remote", rest_address="127.0.0.1", rest_port=port).execute("report")


def test_a_job_of_this_process_can_not_be_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """`penstock run -d` without -m would stay, or its job end with the terminal, and nobody would be told why."""
    settings = {"execution_attached": "false", "restart-strategy_type": "none of them"}
    with pytest.raises(ConfigurationError), caplog.at_level(logging.WARNING):
        program(**settings).execute("report")
    assert "execution.attached: false (-d) has no effect" in caplog.text and "penstock run -m" in caplog.text


def test_a_job_for_a_cluster_brings_no_spark_of_its_own() -> None:
    """Settings of Spark would have no effect, and nobody would be told."""
    with pytest.raises(ConfigurationError, match=r"spark\.master: settings of Spark are those of the cluster"):
        program(execution_target="remote", spark_master="local[2]").execute("report")


def test_a_plan_is_kept_and_nothing_runs() -> None:
    """`penstock explain` would start Spark, or draw nothing."""
    executor = PlanExecutor()
    env = program(executor)
    client = env.execute_async("report")

    assert [graph.name for graph in executor.graphs] == ["report"]
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert client.get_metrics().keys() <= {"Collection Source", "Map", "Print to Std. Out"}


def test_results_of_a_planned_job_end_at_once() -> None:
    """A program that reads its results could not be explained: it would wait for ever."""
    env = StreamExecutionEnvironment(executor=PlanExecutor())
    assert list(env.from_collection([1, 2]).execute_and_collect()) == []


def test_each_executor_keeps_its_own_plans() -> None:
    """A plan of one program would show up among those of another."""
    first, second = PlanExecutor(), PlanExecutor()
    program(first).execute("first")
    program(second).execute("second")

    assert [graph.name for graph in first.graphs] == ["first"]
    assert [graph.name for graph in second.graphs] == ["second"]


def test_an_executor_of_the_environments_own_comes_before_that_of_the_context() -> None:
    """A program that says where it runs would run elsewhere."""
    executor = PlanExecutor()
    with as_context(ContextEnvironment(configuration(), executor)):
        program().execute("by the context")
        with pytest.raises(RuntimeError, match="by its own"):
            program(Refusing()).execute("by its own")

    assert [graph.name for graph in executor.graphs] == ["by the context"]


def test_a_context_ends_also_when_its_program_fails() -> None:
    """The next program in the process would start with the settings of the failed one."""
    with pytest.raises(ZeroDivisionError), as_context(ContextEnvironment(configuration(parallelism_default="3"))):
        assert StreamExecutionEnvironment().get_parallelism() == 3
        raise ZeroDivisionError

    assert context_environment().configuration.to_dict() == {}
