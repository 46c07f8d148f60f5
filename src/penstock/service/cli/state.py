"""`penstock state`: show the contents of a savepoint or checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.common.errors import CheckpointError, StateNotFoundError
from penstock.common.text.quantities import as_moment, as_size
from penstock.service.cli.jobs import print_result

if TYPE_CHECKING:
    from penstock.state_processor import OperatorInfo, SavepointReader

_LIMIT = 100

state = typer.Typer(
    help="Show the contents of a savepoint or checkpoint.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

SnapshotPath = Annotated[
    str,
    typer.Argument(
        metavar="PATH",
        show_default=False,
        help="Directory or URL of a savepoint, or of one checkpoint of a job (…/chk-12).",
    ),
]


@state.command("ls")
def list_states(path: SnapshotPath) -> None:
    """Show operators and their states: types, entries, bytes. For a checkpoint, all state is read to count it.

    
      penstock state ls /data/savepoints/savepoint-…
    """
    print_result(lambda: "\n".join(_summary(_reader(path))))


@state.command()
def show(
    path: SnapshotPath,
    uid: Annotated[
        str, typer.Argument(metavar="UID", show_default=False, help="The operator's uid, as listed by `ls`.")
    ],
    name: Annotated[
        str | None, typer.Argument(metavar="[STATE]", show_default=False, help="A state of the operator; default: all.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="K", show_default=False, help="Only this key: 5, a text, or (1, 'a')."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="N", help="Maximum number of entries per state.")
    ] = _LIMIT,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object per entry.")] = False,
) -> None:
    """Show the entries of an operator's state, one per line.

    Values of classes that can't be imported here are shown by their fields.

    
      penstock state show SAVEPOINT airport-delay
      penstock state show SAVEPOINT airport-delay total --key JFK
      penstock state show SAVEPOINT airport-delay total --json --limit 1000000 > total.jsonl
    """
    print_result(lambda: _show(_reader(path), uid=uid, name=name, key=key, limit=limit, as_json=as_json))


def _summary(reader: SavepointReader) -> Iterator[str]:
    kind = "savepoint" if reader.is_savepoint else "checkpoint"
    job = f"of job {reader.job_name} ({reader.job_id})" if reader.job_id else "of no job"
    yield f"{kind} {reader.checkpoint_id} {job}, {as_moment(reader.completed_ms)}"
    for operator in reader.operators():
        yield ""
        yield f"{operator.uid}  {operator.name}, parallelism {operator.parallelism} of {operator.max_parallelism}"
        yield from _states(operator)


def _states(operator: OperatorInfo) -> Iterator[str]:
    rows = [
        (
            state.name,
            state.type or "internal to penstock",
            _counted(state.entries, "entry", "entries"),
            as_size(state.bytes),
        )
        for state in operator.keyed_states
        if state.entries or state.type.partition(" ")[0] not in ("", "timers")
    ]
    rows += [
        (one.name, f"operator state, {one.redistribution}", _counted(one.items, "item", "items"), as_size(one.bytes))
        for one in operator.list_states
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)] if rows else []
    for name, type_, count, size in rows:
        yield f"  {name:<{widths[0]}}  {type_:<{widths[1]}}  {count:>{widths[2]}}  {size:>{widths[3]}}"


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _show(reader: SavepointReader, uid: str, name: str | None, key: str | None, limit: int, as_json: bool) -> str:
    keyed = [state for state in reader.keyed_states(uid) if name in (None, state)]
    lists = [state for state in reader.list_states(uid) if key is None and name in (None, state)]
    if not keyed and not lists:
        there = ", ".join(map(repr, [*reader.keyed_states(uid), *reader.list_states(uid)]))
        what = ("state" if key is None else "keyed state") + (f" '{name}'" if name is not None else "")
        raise StateNotFoundError(f"operator '{uid}' has no {what}. It has {there or 'none'}")
    sources: list[tuple[str, Iterator[Any]]] = [(one, _rows(reader, uid, one, key)) for one in keyed]
    sources += [(one, ((item,) for item in reader.items(uid, one))) for one in lists]
    several, found = len(sources) > 1, False
    for title, rows in sources:
        shown = list(islice(rows, limit))
        found = found or bool(shown)
        if several and shown and not as_json:
            typer.echo(f"{title}:")
        for row in shown:
            typer.echo(_line(title, row=row, as_json=as_json, keyed=title in keyed, indented=several))
        if next(rows, None) is not None:
            typer.echo(f"'{title}' has more entries: --limit {limit * 10}", err=True)
    if key is not None and not found:
        raise StateNotFoundError(f"no state of operator '{uid}' has an entry for the key {key}")
    return ""


def _line(state_name: str, row: tuple[Any, ...], as_json: bool, keyed: bool, indented: bool) -> str:
    from penstock.engine.snapshots.shown_values import json_of, line_of

    if not as_json:
        return "  " * indented + line_of(row)
    import json

    from penstock.engine.snapshots.keyed_table import row_columns

    columns = row_columns(state_name) if keyed else ["value"]
    values = {column: json_of(part) for column, part in zip(columns, row, strict=True)}
    return json.dumps({"state": state_name, **values}, ensure_ascii=False)


def _rows(reader: SavepointReader, uid: str, name: str, key: str | None) -> Iterator[tuple[Any, ...]]:
    if key is None:
        yield from reader.entries(uid, name)
        return
    found = False
    for candidate in _keys(key):
        for row in reader.entries(uid, name, key=candidate):
            found = True
            yield row
    if not found:
        # Compare dates, enums and records by their printed form.
        yield from (row for row in reader.entries(uid, name) if key in (str(row[0]), repr(row[0])))


def _keys(text: str) -> list[Any]:
    """Return what the text may mean as a key: the text itself, or the Python literal it contains."""
    import ast

    from penstock.engine.state.keys import KeyTypeError, encode_key

    try:
        value = ast.literal_eval(text)
        encode_key(value)
    except (ValueError, SyntaxError, KeyTypeError):
        return [text]
    return [text] if value == text else [text, value]


def _reader(path: str) -> SavepointReader:
    from penstock.engine.checkpoint.storage import completed_in
    from penstock.state_processor import SavepointReader

    try:
        return SavepointReader.read(path, allow_missing_classes=True)
    except CheckpointError as error:
        below = [found for _, found in completed_in(path)] if "is missing" in str(error) else []
        if not below:
            raise
        raise CheckpointError(
            f"{path} contains checkpoints of a job: {', '.join(below)}. Specify one of them"
        ) from None
