"""Questions about what leads to a stream: all streams before it, whether it comes from a head, an unbounded source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from penstock.api.source import Boundedness
from penstock.engine.plan.transformations import SourceTransformation, Transformation


def inputs_of(stream: Transformation) -> Iterable[Transformation]:
    """Return the streams that a stream reads, without what is fed back to it."""
    return stream.inputs


def upstream(
    ends: Iterable[Transformation], before: Callable[[Transformation], Iterable[Transformation]] = inputs_of
) -> Iterator[Transformation]:
    """Yield each stream that leads to `ends`, and these, once. `before` is called for a stream after it was yielded."""
    seen = {end.id: end for end in ends}
    waiting = [*seen.values()]
    while waiting:
        stream = waiting.pop()
        yield stream
        for one in before(stream):
            if one.id not in seen:
                seen[one.id] = one
                waiting.append(one)


def comes_from(stream: Transformation, head: Transformation) -> bool:
    """Return whether a stream is derived from the head of an iteration."""
    return any(one is head for one in upstream([stream]))


def unbounded_source_of(stream: Transformation) -> str | None:
    """Return the name of an unbounded source of a stream, or None if all are bounded."""
    sources = (one for one in upstream([stream]) if isinstance(one, SourceTransformation))
    return next((one.name for one in sources if one.source.get_boundedness() is not Boundedness.BOUNDED), None)
