"""A source that reads several sources one after the other. Source: Flink docs, "Hybrid Source"; FLIP-150."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from penstock.api.source import Boundedness, EnumeratorContext, ReaderContext, Source, SplitEnumerator
from penstock.common.values.shallow_copy import shallow_copy
from penstock.connectors.hybrid.enumerator import HybridEnumerator
from penstock.connectors.hybrid.reader import HybridReader
from penstock.connectors.hybrid.split import HybridState

T = TypeVar("T")


class SourceSwitchContext(msgspec.Struct, frozen=True):
    """The context of a SourceFactory."""

    previous_enumerator: SplitEnumerator

    def get_previous_enumerator(self) -> SplitEnumerator:
        """Return the enumerator of the finished source, still open."""
        return self.previous_enumerator


class SourceFactory(ABC, Generic[T]):
    """Create a source when it is its turn: the end of the previous source is known then.

    Runs in the driver. Checkpoints contain the source: a restart does not create it again.
    """

    @abstractmethod
    def create(self, context: SourceSwitchContext) -> Source[T]:
        """Return the next source."""


class Link(msgspec.Struct, frozen=True):
    """A source of the chain, or the function that creates it."""

    source: Source[Any] | None
    create: Callable[[SourceSwitchContext], Source[Any]] | None
    boundedness: Boundedness


class HybridSource(Source[T]):
    """Read bounded sources to their end, one after the other, and then the last one, which may be unbounded.

    All subtasks read the same source: the switch happens when the last of them has read its last split. Records keep
    the timestamps of their source; watermarks come from the strategy of the hybrid source. In BATCH, where all splits
    are assigned beforehand, each subtask switches independently.

        history = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "events/").build()
        source = HybridSource.builder(history).add_source(SocketSource("localhost", 9999)).build()
    """

    def __init__(self, links: Sequence[Link]) -> None:
        self._links = tuple(links)

    @staticmethod
    def builder(first_source: Source[T]) -> HybridSourceBuilder[T]:
        """Start with the source that is read first. Raise TypeError if it is not a source."""
        return HybridSourceBuilder[T]().add_source(first_source)

    def get_boundedness(self) -> Boundedness:
        """Return the boundedness of the last source."""
        return self._links[-1].boundedness

    def create_enumerator(self, context: EnumeratorContext) -> HybridEnumerator:
        """Create the enumerator, which starts with the first source."""
        return HybridEnumerator(context, len(self._links), self._source_at)

    def restore_enumerator(self, context: EnumeratorContext, state: HybridState) -> HybridEnumerator:
        """Restore the enumerator of the current source.

        Raise ValueError if the chain has fewer sources than in the snapshot.
        """
        if state.index >= len(self._links):
            raise ValueError(
                f"HybridSource: the checkpoint was taken in source {state.index + 1}, but the program has only "
                f"{len(self._links)} sources. Sources may be added at the end, not removed"
            )
        return HybridEnumerator(context, len(self._links), self._source_at, state)

    def create_reader(self, context: ReaderContext) -> HybridReader[T]:
        """Create a reader, which creates the reader of the current source."""
        return HybridReader(context, [link.source for link in self._links])

    def validate(self) -> None:
        """Validate the sources that exist already."""
        for source in self._known():
            source.validate()

    def describe(self) -> str:
        """Return the names of the sources, in order."""
        return ", then ".join(
            "a source created at the switch"
            if link.source is None
            else f"{type(link.source).__name__} {link.source.describe()}".rstrip()
            for link in self._links
        )

    def get_produced_type(self) -> Any:
        """Return the type of the records if all sources exist and agree, else None."""
        known = [source.get_produced_type() for source in self._known()]
        return known[0] if len(known) == len(self._links) and all(one == known[0] for one in known) else None

    def _known(self) -> list[Source[Any]]:
        return [link.source for link in self._links if link.source is not None]

    def _source_at(self, index: int, previous: SplitEnumerator | None) -> tuple[Source[Any], bool]:
        """Return the source at `index`, and whether it was created by this call."""
        link = self._links[index]
        if link.source is not None:
            return link.source, False
        assert link.create is not None and previous is not None
        source = link.create(SourceSwitchContext(previous))
        if not isinstance(source, Source):
            raise TypeError(f"HybridSource: a SourceFactory must return a Source, got {source!r}")
        if source.get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED and link.boundedness is Boundedness.BOUNDED:
            raise ValueError(
                f"HybridSource: source {index + 1} is declared as bounded, but its factory created an unbounded one"
            )
        return source, True


class HybridSourceBuilder(Generic[T]):
    """Build a chain of sources. Made by `HybridSource.builder`."""

    def __init__(self) -> None:
        self._links: list[Link] = []

    def add_source(
        self,
        source: Source[T] | SourceFactory[T] | Callable[[SourceSwitchContext], Source[T]],
        boundedness: Boundedness | None = None,
    ) -> HybridSourceBuilder[T]:
        """Append a source, or a factory or function that creates it; then `boundedness` must be given.

        The call copies the source or SourceFactory: later assignments to its attributes have no effect. Raise TypeError
        if `source` is neither, or lacks its boundedness, and ValueError if the previous source is unbounded.
        """
        if self._links and self._links[-1].boundedness is not Boundedness.BOUNDED:
            raise ValueError(
                "HybridSource: all sources except the last one must be bounded; "
                f"source {len(self._links)} is unbounded, so no source can follow it"
            )
        if isinstance(source, Source):
            copied = shallow_copy(source, copy_containers=True)
            self._links.append(Link(copied, None, copied.get_boundedness()))
            return self
        create = shallow_copy(source, copy_containers=True).create if isinstance(source, SourceFactory) else source
        if not self._links or not callable(create):
            raise TypeError(
                "HybridSource: expected a Source, or after the first one also a SourceFactory or a function of its "
                f"SourceSwitchContext, got {source!r}"
            )
        if not isinstance(boundedness, Boundedness):
            raise TypeError(
                "HybridSource: add_source(factory, boundedness) needs Boundedness.BOUNDED or CONTINUOUS_UNBOUNDED, "
                f"because the source does not exist yet, got {boundedness!r}"
            )
        self._links.append(Link(None, create, boundedness))
        return self

    def build(self) -> HybridSource[T]:
        """Return the source."""
        return HybridSource(self._links)
