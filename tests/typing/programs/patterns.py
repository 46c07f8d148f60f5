"""Patterns: conditions fit the events, subtype narrows them, and a step after it has the pattern's own type again."""

from dataclasses import dataclass
from datetime import timedelta
from typing import assert_type

from penstock.cep import (
    CEP,
    AfterMatchSkipStrategy,
    Context,
    DynamicPatternStream,
    Expression,
    GroupPattern,
    Pattern,
    PatternStream,
    WithinType,
    field,
)
from penstock.datastream import DataStream, KeyedStream


@dataclass
class Event:
    name: str


@dataclass
class Payment(Event):
    amount: float


start: Pattern[Event, Event] = Pattern.begin("start", AfterMatchSkipStrategy.skip_to_next())
assert_type(start.where(lambda e: e.name == "a"), Pattern[Event, Event])
start.where(lambda e: e.amount > 1)  # E: "Event" has no attribute "amount"
start.where(lambda e, ctx: e.name in ctx.get_events_for_pattern("start"))
start.where(lambda e, ctx: e.amount > ctx.timestamp())  # E: Cannot infer # E: incompatible type
start.where(lambda e, ctx: ctx.nothing)  # E: Cannot infer # E: incompatible type
start.where(field("name") == "a").or_(field("name").is_in(["b"]) & ~field("late").is_null())
assert_type(field("amount") * 2 > 500, Expression)
start.where(5)  # E: No overload variant of "where" of "Pattern" matches argument type "int"


def rising(event: Event, ctx: Context) -> bool:
    before: Event = ctx.get_events_for_pattern("start")[-1]
    return event.name > before.name


def of_number(event: int) -> bool:
    return event > 1


start.where(rising).until(rising)
start.where(of_number)  # E: incompatible type "Callable[[int], bool]"

payments = start.followed_by("payment").subtype(Payment)
assert_type(payments, Pattern[Event, Payment])
payments.where(lambda e: e.amount > 1)
assert_type(payments.one_or_more(timedelta(seconds=5)).consecutive().greedy(), Pattern[Event, Payment])
assert_type(payments.next("end"), Pattern[Event, Event])
assert_type(payments.within(timedelta(hours=1), WithinType.PREVIOUS_AND_CURRENT), Pattern[Event, Payment])

group: Pattern[Event, Event] = Pattern.begin("a")
assert_type(start.next(group).times(2), Pattern[Event, Event])
assert_type(start.followed_by(group), GroupPattern[Event, Event])
start.next(5)  # E: No overload variant of "next"


def matches(events: KeyedStream[Event, str], rules: DataStream[str], numbers: DataStream[int]) -> None:
    found = CEP.pattern(events, start)
    assert_type(found, PatternStream[Event])
    assert_type(found.select(lambda match: len(match["start"])), DataStream[int])
    assert_type(found.flat_select(lambda match: match["start"]), DataStream[Event])
    assert_type(found.process(lambda match, ctx: [ctx.timestamp()]), DataStream[int])
    assert_type(found.in_processing_time().limit_partial_matches(5), PatternStream[Event])
    CEP.pattern(numbers, start)  # E: Cannot infer
    CEP.pattern(events, start, lambda one, other: len(one.name) - len(other.name))
    assert_type(CEP.dynamic_patterns(events, rules), DynamicPatternStream[Event])
    CEP.dynamic_patterns(events, numbers)  # E: incompatible type
