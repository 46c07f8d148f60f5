"""Two streams joined or grouped by key and window. Flink's Java API has these; PyFlink does not.

    first.join(second).where(f).equal_to(g).window(assigner).apply(function)

Without `window`, the window of bounded streams is the whole stream. Outer joins have the names of Flink's DataSet API;
`semi_join` and `anti_join` are penstock's. Source: Flink docs, "Joining", Window Join; "Operators", Window CoGroup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from penstock.api.windows.assigner import WindowAssigner
from penstock.api.windows.assigners import GlobalWindows
from penstock.api.windows.evictor import Evictor
from penstock.api.windows.trigger import Trigger
from penstock.common.functions.field_key import FieldKey
from penstock.common.time import TimeLength
from penstock.common.typeinfo import TypeInformation
from penstock.common.types import Row
from penstock.datastream.arguments import as_function, common_key_type, key_selector_of, output_type_of
from penstock.datastream.data_stream import DataStream, check_one_environment
from penstock.datastream.field_join import fields_of_pairs
from penstock.datastream.functions import CoGroupFunction, FlatJoinFunction, JoinFunction, KeySelector
from penstock.datastream.next_call import Unfinished
from penstock.datastream.partition_windowed_stream import check_bounded
from penstock.datastream.windowed_stream import WindowedStream
from penstock.engine.plan.relations import ForOperators, Join, Keys, SemiJoin
from penstock.engine.plan.transformations import Transformation
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.windows.two_streams import (
    CoGroup,
    FlatJoin,
    JoinKind,
    TaggedKey,
    tag_first,
    tag_second,
)
from penstock.engine.runtime.windows.two_streams import Join as JoinPairs
from penstock.engine.runtime.windows.two_streams import SemiJoin as SemiJoinPairs

if TYPE_CHECKING:
    from typing import Self

    from penstock.engine.runtime.windows.evaluation import Evaluation

T1 = TypeVar("T1")
T2 = TypeVar("T2")
K = TypeVar("K")
R = TypeVar("R")


class _TwoStreams(Unfinished, Generic[T1, T2]):
    """Two streams to join or group, still without keys and windows."""

    next_call = "where(key_selector)"

    _kind = ""

    def __init__(self, stream1: DataStream[T1], stream2: DataStream[T2]) -> None:
        if not isinstance(stream2, DataStream):
            raise TypeError(f"expected a stream for {self._kind}, got {stream2!r}")
        check_one_environment(self._kind, stream1, stream2)
        self.stream1 = stream1
        self.stream2 = stream2

    def _key_of_first(
        self, key_selector: Any, key_type: TypeInformation | None
    ) -> tuple[Callable[[Any], Any], TypeInformation | None]:
        """Return the key selector of the first stream, and the type of its keys."""
        return key_selector_of(key_selector, key_type, self.stream1._transformation.output_type)

    def _keyed_by(self, first: Any, second: Any, key_type: TypeInformation | None) -> Any:
        """Return a keyed stream with the tagged records of both, each with the key selector of its stream."""
        tagged = []
        for stream, tag in ((self.stream1, tag_first), (self.stream2, tag_second)):
            one: DataStream[Any] = DataStream(stream.environment, stream._transformation).map(tag)
            one._transformation.parallelism = stream._transformation.parallelism
            one._transformation.is_nameless = True
            tagged.append(one.name("Tag"))
        return tagged[0].union(tagged[1]).key_by(TaggedKey(first, second), key_type)


class _Where(Unfinished, Generic[T1, T2, K]):
    """Two streams, with the key of the first."""

    next_call = "equal_to(key_selector)"

    def __init__(
        self, streams: _TwoStreams[T1, T2], select: Callable[[Any], Any], key_type: TypeInformation | None
    ) -> None:
        self._streams = streams
        self._select = select
        self._key_type = key_type

    def _equal_to(self, key_selector: Any, key_type: TypeInformation | None) -> _KeyedPair:
        both = self._streams
        select, second_type = key_selector_of(key_selector, key_type, both.stream2._transformation.output_type)
        _check_fields(self._select, select)
        keyed_stream = both._keyed_by(self._select, select, common_key_type(self._key_type, second_type))
        return _KeyedPair(
            keyed_stream, (both.stream1._transformation, both.stream2._transformation), (self._select, select)
        )


def _check_fields(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> None:
    """Raise ValueError for keys of another number of fields, which are never equal."""
    if isinstance(first, FieldKey) and isinstance(second, FieldKey) and len(first.fields) != len(second.fields):
        raise ValueError(
            f"where() has the fields {', '.join(first.fields)}, and equal_to() {', '.join(second.fields)}: keys of "
            "different numbers of fields are never equal"
        )


class _KeyedPair(NamedTuple):
    """Two streams with their key selectors, and the keyed stream of the tagged records of both."""

    keyed_stream: Any
    streams: tuple[Transformation, Transformation]
    selectors: tuple[Callable[[Any], Any], Callable[[Any], Any]]

    @property
    def keys(self) -> Keys | None:
        """The fields of both keys; None if one is a function."""
        first, second = (select.fields if isinstance(select, FieldKey) else None for select in self.selectors)
        return None if first is None or second is None else (first, second)


class _WithWindow(Unfinished):
    """Two streams with keys and windows, with the settings of a WindowedStream.

    Assigners, triggers and evictors receive pairs: 0 or 1 for the stream, and the record.
    """

    next_call = "apply(function)"

    _kind = ""

    def __init__(self, keyed_stream: Any, window_assigner: WindowAssigner[Any, Any]) -> None:
        self._windowed: WindowedStream[Any, Any] = WindowedStream(keyed_stream, window_assigner)

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Set the trigger, like `WindowedStream.trigger`."""
        self._windowed.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> Self:
        """Set the evictor, like `WindowedStream.evictor`."""
        self._windowed.evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: TimeLength) -> Self:
        """Set the allowed lateness, like `WindowedStream.allowed_lateness`."""
        self._windowed.allowed_lateness(time_ms)
        return self

    def _evaluated(self, evaluation: Evaluation, output_type: TypeInformation | None) -> DataStream[Any]:
        return self._windowed.evaluated(evaluation, output_type).name(self._kind)


class JoinedStreams(_TwoStreams[T1, T2]):
    """Two streams to join by key and window. Created by `join`."""

    _kind = "join"

    def __init__(self, stream1: DataStream[T1], stream2: DataStream[T2], join_kind: JoinKind = JoinKind.INNER) -> None:
        super().__init__(stream1, stream2)
        self.join_kind = join_kind

    def where(
        self, key_selector: KeySelector[T1, K] | Callable[[T1], K] | str, key_type: TypeInformation | None = None
    ) -> JoinWhere[T1, T2, K]:
        """Set the key of the first stream.

        Raises ValueError if its declared type lacks a field, or `key_type` can't be a key (a list or map).
        """
        return JoinWhere(self, *self._key_of_first(key_selector, key_type), join_kind=self.join_kind)


class JoinWhere(_Where[T1, T2, K]):
    """Two streams to join, with the key of the first."""

    def __init__(
        self,
        streams: _TwoStreams[T1, T2],
        select: Callable[[Any], Any],
        key_type: TypeInformation | None,
        *,
        join_kind: JoinKind,
    ) -> None:
        super().__init__(streams, select, key_type)
        self._join_kind = join_kind

    def equal_to(
        self, key_selector: KeySelector[T2, K] | Callable[[T2], K] | str, key_type: TypeInformation | None = None
    ) -> JoinEqualTo[T1, T2]:
        """Set the key of the second stream.

        Raises ValueError if it is declared with another type than the first, or its stream without a field of it.
        """
        return JoinEqualTo(self._equal_to(key_selector, key_type), self._join_kind)


class JoinEqualTo(Unfinished, Generic[T1, T2]):
    """Two streams to join, with their keys."""

    next_call = "apply(function), or window(assigner)"

    def __init__(self, pair: _KeyedPair, join_kind: JoinKind) -> None:
        self._pair = pair
        self._join_kind = join_kind

    def window(self, assigner: WindowAssigner[Any, Any]) -> JoinWithWindow[T1, T2]:
        """Set the windows. Raises TypeError if it is not a WindowAssigner."""
        return JoinWithWindow(self._pair, assigner, self._join_kind)

    def select(
        self, left: Sequence[str] | Mapping[str, str] = (), right: Sequence[str] | Mapping[str, str] = ()
    ) -> DataStream[Row]:
        """Join whole streams, at their end, and emit fields of each pair: like `select` of a window.

        In BATCH mode, DataFrames with keys of fields are joined by Spark, see "Bounded streams". Raises ProgramError if
        a stream is unbounded.
        """
        result = self.window(_whole(self._pair.keyed_stream, "join")).select(left, right).name("Join")
        fields, _ = fields_of_pairs(self._pair.streams, left, right)
        pair = self._pair
        result._transformation.relation = Join(pair.streams, pair.keys, self._join_kind, fields.fields)
        return result

    def apply(
        self,
        function: JoinFunction[T1, T2, R] | FlatJoinFunction[T1, T2, R] | Callable[[T1, T2], R],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Join whole streams, at their end: like `apply` of a window. In BATCH the records of one key are in memory.

        Raises ProgramError if a stream is unbounded.
        """
        result = self.window(_whole(self._pair.keyed_stream, "join")).apply(function, output_type).name("Join")
        result._transformation.relation = ForOperators(self._pair.streams)
        return result


class JoinWithWindow(_WithWindow, Generic[T1, T2]):
    """Two streams to join, with their keys and windows."""

    _kind = "Window Join"

    def __init__(self, pair: _KeyedPair, window_assigner: WindowAssigner[Any, Any], join_kind: JoinKind) -> None:
        super().__init__(pair.keyed_stream, window_assigner)
        self._streams = pair.streams
        self._join_kind = join_kind

    def apply(
        self,
        function: JoinFunction[T1, T2, R] | FlatJoinFunction[T1, T2, R] | Callable[[T1, T2], R],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Call `function` for each pair of records with the same key in the same window, when it fires.

        An outer join calls it also for a record without a partner there, with None. A JoinFunction or a callable
        returns one result, a FlatJoinFunction any number. Results have the last timestamp of the window. State holds
        every record until its window ends. Raises TypeError if it is not a function.
        """
        flat = isinstance(function, FlatJoinFunction)
        user = as_function(function, "join", FlatJoinFunction if flat else JoinFunction)
        declared = output_type_of(function, "join", output_type, elements=flat)
        return self._evaluated((FlatJoin if flat else JoinPairs)(user, self._join_kind), declared)

    def select(
        self, left: Sequence[str] | Mapping[str, str] = (), right: Sequence[str] | Mapping[str, str] = ()
    ) -> DataStream[Row]:
        """Emit for each pair a Row of fields of both records: `select(left=["order"], right={"paid": "amount"})`.

        A list names fields, a dict also names the results: {"name of the result": "field"}. The fields of the first
        stream's record come first. In an outer join the fields of a record that is not there are None. Raises
        ValueError for a field that the declared type lacks and for a name of two results, TypeError for what is not a
        name. This is not in Flink.
        """
        fields, result_type = fields_of_pairs(self._streams, left, right)
        return self._evaluated(JoinPairs(UserFunction(fields, "join"), self._join_kind), result_type)


class SemiJoinedStreams(_TwoStreams[T1, T2]):
    """Two bounded streams; the second says which records of the first stay. Created by `semi_join` and `anti_join`."""

    def __init__(self, stream1: DataStream[T1], stream2: DataStream[T2], anti: bool) -> None:
        self._kind = "anti_join" if anti else "semi_join"
        super().__init__(stream1, stream2)
        self.anti = anti

    def where(
        self, key_selector: KeySelector[T1, K] | Callable[[T1], K] | str, key_type: TypeInformation | None = None
    ) -> SemiJoinWhere[T1, T2, K]:
        """Set the key of the first stream.

        Raises ValueError if its declared type lacks a field, or `key_type` can't be a key (a list or map).
        """
        return SemiJoinWhere(self, *self._key_of_first(key_selector, key_type), anti=self.anti)


class SemiJoinWhere(_Where[T1, T2, K]):
    """Two bounded streams, with the key of the first."""

    def __init__(
        self,
        streams: _TwoStreams[T1, T2],
        select: Callable[[Any], Any],
        key_type: TypeInformation | None,
        *,
        anti: bool,
    ) -> None:
        super().__init__(streams, select, key_type)
        self._anti = anti

    def equal_to(
        self, key_selector: KeySelector[T2, K] | Callable[[T2], K] | str, key_type: TypeInformation | None = None
    ) -> DataStream[T1]:
        """Set the key of the second stream, and return the stream of those records of the first that stay.

        Raises ValueError if it is declared with another type than the first, or its stream without a field of it,
        ProgramError if a stream is unbounded.
        """
        pair = self._equal_to(key_selector, key_type)
        whole = _whole(pair.keyed_stream, self._streams._kind)
        windowed: WindowedStream[Any, Any] = WindowedStream(pair.keyed_stream, whole)
        declared = self._streams.stream1._transformation.output_type
        result = windowed.evaluated(SemiJoinPairs(self._anti), declared)
        result._transformation.relation = SemiJoin(pair.streams, pair.keys, self._anti)
        return result.name("Anti Join" if self._anti else "Semi Join")


class CoGroupedStreams(_TwoStreams[T1, T2]):
    """Two streams to group by key and window. Created by `co_group`."""

    _kind = "co_group"

    def where(
        self, key_selector: KeySelector[T1, K] | Callable[[T1], K] | str, key_type: TypeInformation | None = None
    ) -> CoGroupWhere[T1, T2, K]:
        """Set the key of the first stream.

        Raises ValueError if its declared type lacks a field, or `key_type` can't be a key (a list or map).
        """
        return CoGroupWhere(self, *self._key_of_first(key_selector, key_type))


class CoGroupWhere(_Where[T1, T2, K]):
    """Two streams to group, with the key of the first."""

    def equal_to(
        self, key_selector: KeySelector[T2, K] | Callable[[T2], K] | str, key_type: TypeInformation | None = None
    ) -> CoGroupEqualTo[T1, T2]:
        """Set the key of the second stream.

        Raises ValueError if it is declared with another type than the first, or its stream without a field of it.
        """
        return CoGroupEqualTo(self._equal_to(key_selector, key_type))


class CoGroupEqualTo(Unfinished, Generic[T1, T2]):
    """Two streams to group, with their keys."""

    next_call = "apply(function), or window(assigner)"

    def __init__(self, pair: _KeyedPair) -> None:
        self._pair = pair

    def window(self, assigner: WindowAssigner[Any, Any]) -> CoGroupWithWindow[T1, T2]:
        """Set the windows. Raises TypeError if it is not a WindowAssigner."""
        return CoGroupWithWindow(self._pair.keyed_stream, assigner)

    def apply(
        self,
        function: CoGroupFunction[T1, T2, R] | Callable[[Iterable[T1], Iterable[T2]], Iterable[R] | None],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Group whole streams, at their end: like `apply` of a window. In BATCH the records of one key are in memory.

        Raises ProgramError if a stream is unbounded.
        """
        whole = _whole(self._pair.keyed_stream, "co_group")
        result = self.window(whole).apply(function, output_type).name("Co-Group")
        result._transformation.relation = ForOperators(self._pair.streams)
        return result


class CoGroupWithWindow(_WithWindow, Generic[T1, T2]):
    """Two streams to group, with their keys and windows."""

    _kind = "Window Co-Group"

    def apply(
        self,
        function: CoGroupFunction[T1, T2, R] | Callable[[Iterable[T1], Iterable[T2]], Iterable[R] | None],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Call `function` with both streams' records of a key in a window, when it fires. One side may be empty.

        It is a CoGroupFunction, or a callable that returns an iterable. Results have the last timestamp of the window.
        State holds every record until its window ends. Raises TypeError if it is not a function.
        """
        user = as_function(function, "co_group", CoGroupFunction)
        declared = output_type_of(function, "co_group", output_type, elements=True)
        return self._evaluated(CoGroup(user), declared)


def _whole(keyed_stream: Any, method: str) -> GlobalWindows[Any]:
    """Return the window of whole streams. Raises ProgramError if one is unbounded."""
    check_bounded(method, keyed_stream._transformation)
    return GlobalWindows.create_with_end_of_stream_trigger()
