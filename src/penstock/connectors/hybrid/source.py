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
        """The enumerator of the source that has been read to its end, still open."""
        return self.previous_enumerator


class SourceFactory(ABC, Generic[T]):
    """Makes a source at the moment of the switch to it, when it is known where the one before has ended.

    Runs in the driver. The source is stored with the job's checkpoints: a restart does not make it again.
    """

    @abstractmethod
    def create(self, context: SourceSwitchContext) -> Source[T]:
        """The source to be read next."""


class Link(msgspec.Struct, frozen=True):
    """A source of the chain, or what makes it when its turn has come."""

    source: Source[Any] | None
    create: Callable[[SourceSwitchContext], Source[Any]] | None
    boundedness: Boundedness


class HybridSource(Source[T]):
    """Reads bounded sources to their end, one after the other, and then the last one, which may be unbounded.

    All subtasks read the same source: the switch is made when the last of them has read its last split. Records keep
    the timestamps of their source; watermarks come from the strategy of the whole. In BATCH, where all splits are
    assigned beforehand, each subtask goes on to the next source by itself.

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
        """Restore the enumerator of the source that was being read.

        Raises ValueError if the source has fewer links than then.
        """
        if state.index >= len(self._links):
            raise ValueError(
                f"HybridSource: the checkpoint was taken while source {state.index + 1} was read, the program has "
                f"{len(self._links)}: sources may be added at the end, not removed"
            )
        return HybridEnumerator(context, len(self._links), self._source_at, state)

    def create_reader(self, context: ReaderContext) -> HybridReader[T]:
        """Create a reader, which creates one of the current source."""
        return HybridReader(context, [link.source for link in self._links])

    def validate(self) -> None:
        """Validate the sources that are known already."""
        for source in self._known():
            source.validate()

    def describe(self) -> str:
        """The names of the sources, in order."""
        return ", then ".join(
            "a source that is made at the switch"
            if link.source is None
            else f"{type(link.source).__name__} {link.source.describe()}".rstrip()
            for link in self._links
        )

    def get_produced_type(self) -> Any:
        """The type of the records if all sources are known and agree, else None."""
        known = [source.get_produced_type() for source in self._known()]
        return known[0] if len(known) == len(self._links) and all(one == known[0] for one in known) else None

    def _known(self) -> list[Source[Any]]:
        return [link.source for link in self._links if link.source is not None]

    def _source_at(self, index: int, previous: SplitEnumerator | None) -> tuple[Source[Any], bool]:
        """The source at `index`, and whether it was made for this call."""
        link = self._links[index]
        if link.source is not None:
            return link.source, False
        assert link.create is not None and previous is not None
        source = link.create(SourceSwitchContext(previous))
        if not isinstance(source, Source):
            raise TypeError(f"HybridSource: a SourceFactory must return a Source, got {source!r}")
        if source.get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED and link.boundedness is Boundedness.BOUNDED:
            raise ValueError(
                f"HybridSource: the factory of source {index + 1} is bounded by its declaration, its source is not"
            )
        return source, True


class HybridSourceBuilder(Generic[T]):
    """Chains sources. Made by `HybridSource.builder`."""

    def __init__(self) -> None:
        self._links: list[Link] = []

    def add_source(
        self,
        source: Source[T] | SourceFactory[T] | Callable[[SourceSwitchContext], Source[T]],
        boundedness: Boundedness | None = None,
    ) -> HybridSourceBuilder[T]:
        """Append a source, or what makes one at the switch to it: then `boundedness` must say whether it will end.

        The source, or the SourceFactory, is taken as it is in this call: later assignments to it change nothing.
        Raises TypeError if `source` is neither, or lacks its boundedness, and ValueError if the source before never
        ends.
        """
        if self._links and self._links[-1].boundedness is not Boundedness.BOUNDED:
            raise ValueError(
                "HybridSource: all sources except the last one must be bounded; "
                f"source {len(self._links)} never ends, so none can follow it"
            )
        if isinstance(source, Source):
            taken = shallow_copy(source, own_containers=True)
            self._links.append(Link(taken, None, taken.get_boundedness()))
            return self
        create = shallow_copy(source, own_containers=True).create if isinstance(source, SourceFactory) else source
        if not self._links or not callable(create):
            raise TypeError(
                "HybridSource: expected a Source, or for those after the first a SourceFactory or a function of its "
                f"SourceSwitchContext, got {source!r}"
            )
        if not isinstance(boundedness, Boundedness):
            raise TypeError(
                "HybridSource: add_source(factory, boundedness) needs Boundedness.BOUNDED or CONTINUOUS_UNBOUNDED: "
                f"nothing is known yet of the source that the factory makes, got {boundedness!r}"
            )
        self._links.append(Link(None, create, boundedness))
        return self

    def build(self) -> HybridSource[T]:
        """The source."""
        return HybridSource(self._links)
