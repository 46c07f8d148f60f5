"""`penstock query`: read keyed state of a running job, from its last completed checkpoint or from its tasks."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.common.text.quantities import as_moment
from penstock.service.cli.jobs import Job, print_result

if TYPE_CHECKING:
    from penstock.engine.snapshots.state_answer import Isolation, StateAnswer
    from penstock.service.client.queryable_state_client import QueryableStateClient


def query(
    job: Job,
    state: Annotated[
        str | None,
        typer.Argument(
            metavar="[STATE]", show_default=False, help="Queryable name of the state; with --operator, its own name."
        ),
    ] = None,
    keys: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY]...", show_default=False, help="5, a text, or (1, 'a'). Without one: the first entries."
        ),
    ] = None,
    operator: Annotated[
        str | None, typer.Option("--operator", metavar="UID", show_default=False, help="The operator of the state.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=10_000, metavar="N", help="Maximum number of entries.")
    ] = 100,
    live: Annotated[
        bool, typer.Option("--live", help="Read the tasks' current state, which a failure may roll back.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object per entry.")] = False,
) -> None:
    """Show keyed state of a running job, as of its last completed checkpoint, or live. Without STATE, list all states.

    
      penstock query flights
      penstock query flights delays JFK
      penstock query flights delays JFK --live
      penstock query flights --operator airport-delay total JFK LGA --json
    """
    print_result(
        lambda: _answer(job, state=state, keys=keys or [], operator=operator, limit=limit, live=live, as_json=as_json)
    )


def _answer(
    job: str, state: str | None, keys: list[str], operator: str | None, limit: int, live: bool, as_json: bool
) -> str:
    from penstock.service.client.queryable_state_client import QueryableStateClient

    client, job_id = QueryableStateClient.of_job(job)
    if state is None:
        return _listed(client, job_id)
    name, own = (state, None) if operator is None else (None, state)
    asked = [_key(text) for text in keys]
    isolation: Isolation = "read-uncommitted" if live else "read-committed"
    answer = client.entries(
        job_id, name=name, operator=operator, state=own, keys=asked, limit=limit, isolation=isolation
    )
    found = [next(iter(entry.values())) for entry in answer.entries]
    for key in asked:
        if key not in found:
            typer.echo(f"no entry for {key!r}. Write a key as a Python literal: 5, 'a' or (1, 'a')", err=True)
    return "\n".join(_lines(answer, as_json))


def _listed(client: QueryableStateClient, job_id: str) -> str:
    found = client.states(job_id)
    lines = [f"checkpoint {found.checkpoint_id}, {as_moment(found.completed)}"]
    if not found.states:
        lines.append("  no keyed state: no function of the job has used any yet that can be queried")
    for one in found.states:
        names = "".join(f", queryable as '{name}'" for name in one.queryable_names)
        lines.append(f"  --operator {one.operator} {one.state}  {one.type}{names}")
    return "\n".join(lines)


def _lines(answer: StateAnswer, as_json: bool) -> list[str]:
    import json

    from penstock.engine.snapshots.shown_values import json_of, line_of

    if as_json:
        return [json.dumps({name: json_of(part) for name, part in entry.items()}) for entry in answer.entries]
    lines = [line_of(tuple(entry.values())) for entry in answer.entries]
    more = "" if answer.is_complete else "; there are more entries"
    of = "live, not committed"
    if answer.checkpoint_id is not None and answer.completed is not None:
        of = f"checkpoint {answer.checkpoint_id}, {as_moment(answer.completed)}"
    typer.echo(f"{of}{more}", err=True)
    return lines


def _key(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
