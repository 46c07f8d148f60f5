"""Pictures of a pattern: one line, lines of characters, and a Mermaid flow chart."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cep.after_match import AfterMatchSkipStrategy
from penstock.cep.conditions import ALWAYS, text_of
from penstock.cep.steps import Contiguity, Step, window_ms

_BETWEEN = {
    Contiguity.STRICT: "next",
    Contiguity.RELAXED: "followed by",
    Contiguity.RELAXED_ANY: "followed by any",
    Contiguity.NOT_NEXT: "not next",
    Contiguity.NOT_FOLLOWED: "not followed by",
}
_INNER = {Contiguity.STRICT: " in a row", Contiguity.RELAXED: "", Contiguity.RELAXED_ANY: ", all combinations"}


def in_short(steps: Sequence[Step]) -> str:
    """Return the pattern in one line: `a .. b+ , c?`."""
    text = ""
    for position, step in enumerate(steps):
        if position:
            text += f" {step.contiguity.value} "
        text += (f"({in_short(step.group)})" if step.group else step.name) + _quantifier(step)
    return text


def as_text(steps: Sequence[Step], skip: AfterMatchSkipStrategy) -> str:
    """Return the pattern as lines of characters, a step a line, from the first to the last one."""
    lines = _lines(steps, "")
    window = window_ms(steps)
    if window is not None:
        lines.append(f"within {_length(window)} from first to last event")
    if skip.skips:
        lines.append(f"after a match: {skip.kind.replace('_', ' ')}{f' {skip.step_name}' if skip.step_name else ''}")
    return "\n".join(lines)


def as_mermaid(steps: Sequence[Step]) -> str:
    """Return the source of a Mermaid flow chart: steps are nodes, groups are subgraphs, arrows show contiguity."""
    lines = ["flowchart LR"]
    edges: list[str] = []
    names = iter(f"s{number}" for number in range(10_000))

    def draw(inner: Sequence[Step], indentation: str) -> tuple[str, str]:
        first = last = ""
        for step in inner:
            name = next(names)
            if step.group:
                lines.append(f'{indentation}subgraph {name}["{_escaped(_repetitions(step) or "group")}"]')
                draw(step.group, indentation + "  ")
                lines.append(f"{indentation}end")
            else:
                label = "<br/>".join(_escaped(part) for part in (step.name, *_details(step)) if part)
                shape = ('{{"', '"}}') if step.contiguity.is_not else ('["', '"]')
                lines.append(f"{indentation}{name}{shape[0]}{label}{shape[1]}")
            if last:
                arrow = "-.->" if step.contiguity.is_not or step.optional else "-->"
                edges.append(f'  {last} {arrow}|"{_BETWEEN[step.contiguity]}"| {name}')
            first, last = first or name, name
            if step.loops:
                edges.append(f"  {name} --> {name}")
        return first, last

    draw(steps, "  ")
    return "\n".join(lines + edges)


def _lines(steps: Sequence[Step], indentation: str) -> list[str]:
    lines = []
    for position, step in enumerate(steps):
        if position:
            lines.append(f"{indentation}  {'✗' if step.contiguity.is_not else '↓'} {_BETWEEN[step.contiguity]}")
        if step.group:
            lines.append(f"{indentation}(")
            lines += _lines(step.group, indentation + "    ")
            lines.append(f"{indentation}) {_repetitions(step)}".rstrip())
        else:
            lines.append(f"{indentation}{step.name}: {'; '.join(part for part in _details(step) if part)}")
    return lines


def _details(step: Step) -> list[str]:
    condition = "any event" if step.condition is ALWAYS else text_of(step.condition)
    return [condition, _repetitions(step)]


def _repetitions(step: Step) -> str:
    parts = []
    times = step.times
    if times is not None:
        if times.most is None:
            count = f"{times.least} or more times"
        elif times.most == times.least:
            count = f"{times.least} times"
        else:
            count = f"{times.least} to {times.most} times"
        parts.append(count + _INNER[step.inner] + (", greedy" if step.greedy else ""))
        if times.gap_ms is not None:
            parts.append(f"less than {_length(times.gap_ms)} apart")
    if step.optional:
        parts.append("optional")
    if step.until is not None:
        parts.append(f"until {text_of(step.until)}")
    if step.gap_ms is not None:
        parts.append(f"less than {_length(step.gap_ms)} after the event before")
    return ", ".join(parts)


def _quantifier(step: Step) -> str:
    text = ""
    if step.times is not None:
        least, most = step.times.least, step.times.most
        if most is None:
            text = "+" if least == 1 else f"{{{least},}}"
        else:
            text = f"{{{least}}}" if least == most else f"{{{least},{most}}}"
    return text + ("?" if step.optional else "")


def _length(length_ms: int) -> str:
    for unit_ms, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if length_ms % unit_ms == 0:
            return f"{length_ms // unit_ms} {unit}"
    return f"{length_ms} ms"


def _escaped(text: str) -> str:
    """Return a text that Mermaid shows as it is."""
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
