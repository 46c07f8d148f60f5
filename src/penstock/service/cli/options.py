"""Options common to the commands that run a program: path, arguments, defaults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from penstock.service.client.executor import PipelineExecutor

Job = Annotated[
    Path,
    typer.Argument(
        metavar="JOB",
        exists=True,
        dir_okay=False,
        readable=True,
        show_default=False,
        help="The Python file of the job.",
    ),
]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGS", show_default=False, help="Passed to the job as its sys.argv[1:]."),
]
Parallelism = Annotated[
    int | None,
    typer.Option(
        "--parallelism", "-p", min=1, show_default=False, help="Subtasks of each operator: -D parallelism.default."
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        show_default=False,
        help="Where the tasks run: spark://HOST:PORT, yarn, k8s://...: -D spark.master. Not set: on this machine.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "-D", metavar="KEY=VALUE", show_default=False, help="A setting of Flink or of Spark (spark.*); may be repeated."
    ),
]
ConfFile = Annotated[
    Path | None,
    typer.Option(
        "--conf-file",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        readable=True,
        show_default=False,
        help="Settings in YAML, as in Flink's config.yaml; -D takes precedence.",
    ),
]
PyFlink = Annotated[
    bool, typer.Option("--pyflink", help="Run an unchanged PyFlink program: pyflink.* resolves to penstock.*.")
]

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no lines about start, progress and end of the job.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the lines about the job as JSON objects, for other programs.")
]
RestPort = Annotated[
    str | None,
    typer.Option(
        "--rest-port",
        metavar="PORT",
        show_default=False,
        help="Port or range of the job's REST endpoint, on this machine only, or `off`. Default: 8081-8099,0.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        "-m",
        metavar="HOST:PORT",
        show_default=False,
        help="Run the job in this cluster (penstock cluster start): -D execution.target=remote, rest.address, "
        "rest.port.",
    ),
]
Detached = Annotated[
    bool,
    typer.Option("--detached", "-d", help="With -m: return as soon as the job has started or waits for slots."),
]
FromState = Annotated[
    str | None,
    typer.Option(
        "--from-savepoint",
        "--fromSavepoint",
        "-s",
        metavar="PATH",
        show_default=False,
        help="Start from this checkpoint or savepoint; `latest`: the newest checkpoint of a job with this name.",
    ),
]
AllowNonRestored = Annotated[
    bool,
    typer.Option(
        "--allow-non-restored-state",
        "--allowNonRestoredState",
        "-n",
        help="With -s: ignore the state of operators that no longer exist.",
    ),
]
Python = Annotated[
    bool, typer.Option("--python", "-py", help="Accepted for `flink run -py JOB`. Not needed: JOB is a Python file.")
]


def _refuse_flinks(value: str | None) -> None:
    if value is not None:
        raise typer.BadParameter(
            "name what a job needs by settings: -D python.files=…, python.archives, python.requirements. A job is one "
            "file with the modules next to it, and runs with the interpreter of penstock",
            param_hint="-pyfs, -pyarch, -pyreq, -pyexec, -pym",
        )


_FLINKS_FLAGS = (
    "-pyfs", "--pyFiles", "-pyarch", "--pyArchives", "-pyreq", "--pyRequirements", "-pyexec", "--pyExecutable",
    "-pym", "--pyModule", "-pyclientexec", "--pyClientExecutable",
)  # fmt: skip
FlinksFiles = Annotated[
    str | None,
    typer.Option(*_FLINKS_FLAGS, hidden=True, is_eager=True, callback=_refuse_flinks),
]
KeepSession = Annotated[
    bool | None,
    typer.Option(
        "--keep-session/--no-keep-session",
        show_default=False,
        help="Keep Spark's JVM for ten minutes, so that the next program starts in a second or two; default: at a "
        "terminal.",
    ),
]
AllowDuplicates = Annotated[
    bool,
    typer.Option(
        "--allow-duplicates",
        help="If the newest checkpoint is damaged, start from the one before, which duplicates the output since then.",
    ),
]


def check_misplaced_options(
    context: typer.Context, job: Path, arguments: Sequence[str], has_state: bool = False
) -> None:
    """Warn about options of this command that stand after the job, unless the job's own text mentions them.

    Raises typer.BadParameter for a misplaced option that names the state to start from, unless the job `has_state`
    otherwise: the job would start without state.
    """
    try:
        program = job.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return
    begins_anew = False
    ours = {option: parameter.name for parameter in context.command.params for option in parameter.opts}
    misplaced = {}
    for position, argument in enumerate(arguments, start=1):
        name, equals, _ = argument.partition("=")
        # A value may follow without a space. After -s only a path counts, as many other options begin with -s.
        option = "-D" if name.startswith("-D") else "-s" if name.startswith("-s") and "/" in name else name
        if option in ours and f'"{option}"' not in program and f"'{option}'" not in program:
            misplaced[argument] = ours[option]
            if ours[option] == "from_state" and (equals or option != argument or position < len(arguments)):
                begins_anew = not has_state
    if not misplaced:
        return
    names = " and ".join(misplaced)
    stands, is_passed, them = ("stands", "it is", "it") if len(misplaced) == 1 else ("stand", "they are", "them")
    place = f"penstock {context.info_name} {' … '.join(misplaced)} … {job.name}"
    if begins_anew:
        raise typer.BadParameter(
            f"{names} {stands} after {job.name}, which does not mention {them}: the job would start without that "
            f"state. Put {them} first: {place}. If a module of the job reads this option, mention it in quotes in "
            f"{job.name}, for example in a comment; then it is passed to the job"
        )
    typer.echo(
        f"{names} {stands} after {job.name}, so {is_passed} passed to the job, which does not mention {them}. To pass "
        f"{them} to penstock, put {them} first: {place}",
        err=True,
    )


def settings_of(
    parallelism: int | None,
    settings: list[str] | None,
    *,
    from_state: str | None = None,
    allow_non_restored: bool = False,
    allow_duplicates: bool = False,
    master: str | None = None,
    keep_session: bool | None = None,
    rest_port: str | None = None,
    cluster: str | None = None,
    detached: bool = False,
) -> dict[str, str]:
    """Return the defaults as one mapping. Specific options take precedence over `-D`, a later `-D` over an earlier one.

    Raises typer.BadParameter for a `-D` that is not KEY=VALUE.
    """
    result: dict[str, str] = {}
    for setting in settings or []:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(
                f"expected KEY=VALUE, such as -D execution.buffer-timeout.interval=1ms, got {setting!r}"
            )
        result[key.strip()] = value.strip()
    if parallelism is not None:
        result["parallelism.default"] = str(parallelism)
    if master is not None:
        result["spark.master"] = master
    if keep_session is not None:
        result["penstock.spark.keep-session"] = str(keep_session).lower()
    if rest_port is not None:
        result["rest.bind-port"] = "" if rest_port == "off" else rest_port
    if cluster is not None:
        host, _, port = cluster.rpartition(":")
        if not (host and port.isdigit()):
            raise typer.BadParameter(f"expected HOST:PORT, got {cluster!r}", param_hint="-m")
        result |= {"execution.target": "remote", "rest.address": host, "rest.port": port}
    if detached:
        result["execution.attached"] = "false"
    if from_state is not None:
        result["execution.state-recovery.path"] = from_state
    if allow_non_restored:
        result["execution.state-recovery.ignore-unclaimed-state"] = "true"
    if allow_duplicates:
        result["execution.state-recovery.allow-duplicates"] = "true"
    return result


def high_availability_in(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of high availability. Raises typer.BadParameter for an invalid value."""
    from penstock.common.configuration import high_availability_options

    return _checked(vars(high_availability_options).values(), settings)


def ssl_in(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of TLS for REST. Raises typer.BadParameter for an invalid value."""
    from penstock.common.configuration.rest_options import SSL_CERTIFICATE, SSL_ENABLED, SSL_PRIVATE_KEY

    return _checked((SSL_ENABLED, SSL_CERTIFICATE, SSL_PRIVATE_KEY), settings)


def _checked(options: Iterable[Any], settings: Mapping[str, str]) -> dict[str, str]:
    from penstock.common.config_options import ConfigOption
    from penstock.common.configuration import Configuration
    from penstock.common.errors import ConfigurationError

    known = [option for option in options if isinstance(option, ConfigOption)]
    keys = {key for option in known for key in (option.key, *option.fallback_keys)}
    found = {key: value for key, value in settings.items() if key in keys}
    try:
        for option in known:
            Configuration.from_dict(found).get(option)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error), param_hint="-D") from None
    return found


def settings_in(file: Path | None) -> dict[str, str]:
    """Return the settings of a configuration file. Raises typer.BadParameter if it can't be read."""
    if file is None:
        return {}
    from penstock.common.configuration.configuration_file import read_configuration
    from penstock.common.errors import ConfigurationError

    try:
        return read_configuration(file).to_dict()
    except ConfigurationError as error:
        raise typer.BadParameter(str(error), param_hint="--conf-file") from None


@contextmanager
def program_context(
    defaults: Mapping[str, str], pyflink: bool = False, executor: PipelineExecutor | None = None
) -> Iterator[None]:
    """Let environments created in this context start from `defaults`, and let `executor` run their jobs.

    Settings of the program itself take precedence. With `pyflink`, `import pyflink` imports penstock from now on.
    Raises typer.BadParameter for a misspelled key and for an invalid value.
    """
    # Imported here, so that `penstock --help` stays fast.
    from penstock.common.configuration import Configuration, option_checks
    from penstock.common.doors import pyflink_alias
    from penstock.common.errors import ConfigurationError
    from penstock.service.client.context_environment import ContextEnvironment, as_context

    if pyflink:
        pyflink_alias.install()
    configuration = Configuration()
    for key, value in defaults.items():
        configuration.set_string(key, value)
    try:
        # The job that starts with unknown keys reports them.
        option_checks.check_keys(configuration)
        option_checks.check_values(configuration)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error), param_hint="-D") from None
    with as_context(ContextEnvironment(configuration, executor)):
        yield
