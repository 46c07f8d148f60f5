"""Complex event processing: patterns in streams, with the Pattern API of Flink in Python names.

from penstock.cep import CEP, Pattern, field

fraud = (
    Pattern.begin("small").where(field("amount") < 5)
    .next("large").where(lambda e: e.amount > 500)
    .within(Duration.of_seconds(60))
)
alerts = CEP.pattern(payments.key_by("card"), fraud).select(lambda match: match["large"][0])
"""

from penstock.cep.after_match import AfterMatchSkipStrategy
from penstock.cep.condition_functions import (
    Context,
    IterativeCondition,
    RichIterativeCondition,
    SimpleCondition,
)
from penstock.cep.dynamic_pattern_stream import DynamicPatternStream
from penstock.cep.errors import MalformedPatternError, SkipTargetError
from penstock.cep.expressions import Expression, field
from penstock.cep.functions import (
    EventComparator,
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
    TimedOutPartialMatchHandler,
)
from penstock.cep.json_form import expression_from_json, expression_to_json
from penstock.cep.pattern import GroupPattern, Pattern
from penstock.cep.pattern_json import pattern_from_json, pattern_to_json
from penstock.cep.pattern_stream import CEP, PatternStream
from penstock.cep.rules import RejectedRule
from penstock.cep.steps import WithinType
from penstock.common.doors.door import publish

__all__ = [
    "CEP",
    "AfterMatchSkipStrategy",
    "Context",
    "DynamicPatternStream",
    "EventComparator",
    "Expression",
    "GroupPattern",
    "IterativeCondition",
    "MalformedPatternError",
    "Pattern",
    "PatternFlatSelectFunction",
    "PatternFlatTimeoutFunction",
    "PatternProcessFunction",
    "PatternSelectFunction",
    "PatternStream",
    "PatternTimeoutFunction",
    "RejectedRule",
    "RichIterativeCondition",
    "SimpleCondition",
    "SkipTargetError",
    "TimedOutPartialMatchHandler",
    "WithinType",
    "expression_from_json",
    "expression_to_json",
    "field",
    "pattern_from_json",
    "pattern_to_json",
]

publish(__name__, __all__)
