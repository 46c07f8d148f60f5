"""ConnectedStreams: two streams, possibly of different types, that one function reads. Created by `connect`.

Source: Flink docs, "Operators", Connect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.api.functions.failed_record import OnError
from penstock.common.typeinfo import TypeInformation
from penstock.datastream.arguments import as_two_functions, checked_on_error, common_key_type, common_output_type
from penstock.datastream.data_stream import DataStream, check_one_environment
from penstock.datastream.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeySelector,
)
from penstock.datastream.keyed_stream import KeyedStream
from penstock.datastream.next_call import Unfinished
from penstock.engine.plan.transformations import OperatorTransformation
from penstock.engine.runtime.operators.function_adapters import CoFlatMap, CoMap
from penstock.engine.runtime.operators.guarded import guarded_pair
from penstock.engine.runtime.operators.two_inputs import CoProcessOperator, KeyedCoProcessOperator

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Operator

T1 = TypeVar("T1")
T2 = TypeVar("T2")
K = TypeVar("K")
R = TypeVar("R")

_ELEMENTS = ("process_element1", "process_element2")


class ConnectedStreams(Unfinished, Generic[T1, T2]):
    """Two connected streams. If both have keys, functions have keyed state and timers, which the streams share.

    Event time is the minimum over both. The order between records of different streams is not defined.
    """

    next_call = "map, flat_map or process, and a function of two streams"

    def __init__(self, stream1: DataStream[T1], stream2: DataStream[T2]) -> None:
        check_one_environment("connect", stream1, stream2)
        self.stream1 = stream1
        self.stream2 = stream2
        if isinstance(stream1, KeyedStream) and isinstance(stream2, KeyedStream):
            common_key_type(stream1._key_type, stream2._key_type)

    def key_by(
        self,
        key_selector1: KeySelector[T1, K] | Callable[[T1], K] | str,
        key_selector2: KeySelector[T2, K] | Callable[[T2], K] | str,
        key_type: TypeInformation | None = None,
    ) -> ConnectedStreams[T1, T2]:
        """Partition both streams by key: records of both with equal keys go to the same subtask.

        A key selector is a callable, a KeySelector, or the name of a field: see `DataStream.key_by`. Raises ValueError
        if different types are declared for the keys.
        """
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type=key_type),
            self.stream2.key_by(key_selector2, key_type=key_type),
        )

    def map(
        self,
        func: CoMapFunction[T1, T2, R],
        output_type: TypeInformation | None = None,
        *,
        on_error: OnError = "fail",
    ) -> DataStream[R]:
        """Emit a result for each record, unless it is None: from `map1` for the first stream, `map2` for the second.

        `on_error`, here and in the other two methods: see `DataStream.map`.
        """
        as_two_functions(func, CoMap.methods, CoMapFunction)
        declared = common_output_type(func, CoMap.methods, output_type)
        return self._operator("Co-Map", CoMap(func), methods=CoMap.methods, on_error=on_error, output_type=declared)

    def flat_map(
        self,
        func: CoFlatMapFunction[T1, T2, R],
        output_type: TypeInformation | None = None,
        *,
        on_error: OnError = "fail",
    ) -> DataStream[R]:
        """Emit any number of results per record: from `flat_map1` for the first stream, `flat_map2` for the second."""
        as_two_functions(func, CoFlatMap.methods, CoFlatMapFunction)
        declared = common_output_type(func, CoFlatMap.methods, output_type, elements=True)
        return self._operator(
            "Co-Flat Map", CoFlatMap(func), methods=CoFlatMap.methods, on_error=on_error, output_type=declared
        )

    def process(
        self,
        func: CoProcessFunction[T1, T2, R] | KeyedCoProcessFunction[Any, T1, T2, R],
        output_type: TypeInformation | None = None,
        *,
        on_error: OnError = "fail",
    ) -> DataStream[R]:
        """Apply a function to both streams: any number of results, and side outputs with `yield tag, value`.

        Raises TypeError for a KeyedCoProcessFunction if one of the streams has no key.
        """
        if isinstance(func, KeyedCoProcessFunction) and not self._is_keyed:
            raise TypeError(
                f"{type(func).__name__} is a KeyedCoProcessFunction, but the streams have no keys: call key_by on "
                "both, or connect(...).key_by(key_selector1, key_selector2)"
            )
        declared = common_output_type(func, _ELEMENTS, output_type, elements=True)
        name = "Co-Keyed-Process" if self._is_keyed else "Co-Process"
        return self._operator(name, func, methods=_ELEMENTS, on_error=on_error, output_type=declared)

    @property
    def _is_keyed(self) -> bool:
        return isinstance(self.stream1, KeyedStream) and isinstance(self.stream2, KeyedStream)

    def _operator(
        self,
        name: str,
        func: Any,
        *,
        methods: tuple[str, str],
        on_error: OnError,
        output_type: TypeInformation | None,
    ) -> DataStream[Any]:
        """Add the operator that calls `func`. Errors contain the names `methods` of the user's object."""
        interface = KeyedCoProcessFunction if self._is_keyed else CoProcessFunction
        function, second = as_two_functions(func, _ELEMENTS, interface)
        function.method, second.method = map(function.named, methods)
        function, second = guarded_pair(function, second, checked_on_error(on_error))
        first_stream, second_stream = self.stream1, self.stream2
        operator: Operator
        if isinstance(first_stream, KeyedStream) and isinstance(second_stream, KeyedStream):
            selectors = first_stream.key_selector, second_stream.key_selector
            operator = KeyedCoProcessOperator(name, *selectors, function, second)
        else:
            operator = CoProcessOperator(name, function, second)
        return two_input_stream(
            name=name, stream1=first_stream, stream2=second_stream, operator=operator, output_type=output_type
        )


def two_input_stream(
    name: str,
    stream1: DataStream[Any],
    stream2: DataStream[Any],
    operator: Operator,
    output_type: TypeInformation | None,
) -> DataStream[Any]:
    """Add an operator that reads two streams, and return its output stream."""
    environment = stream1.environment
    transformation = OperatorTransformation(
        id=environment.next_id(),
        name=name,
        inputs=[stream1._transformation, stream2._transformation],
        operator=operator,
        output_type=output_type,
    )
    return DataStream(environment, transformation)
