"""Complex event processing: patterns in streams, with the Pattern API of Flink in Python names.

Patterns can be built, drawn and run over sequences of events; streams do not run them yet.

from penstock.cep import Pattern, field

fraud = (
    Pattern.begin("small").where(field("amount") < 5)
    .next("large").where(lambda e: e.amount > 500)
    .within(Duration.of_seconds(60))
)
"""

from penstock.cep.after_match import AfterMatchSkipStrategy
from penstock.cep.conditions import Context
from penstock.cep.errors import MalformedPatternError, SkipTargetError
from penstock.cep.expressions import Expression, field
from penstock.cep.json_form import expression_from_json, expression_to_json
from penstock.cep.pattern import GroupPattern, Pattern
from penstock.cep.steps import WithinType
from penstock.common.doors.door import publish

__all__ = [
    "AfterMatchSkipStrategy",
    "Context",
    "Expression",
    "GroupPattern",
    "MalformedPatternError",
    "Pattern",
    "SkipTargetError",
    "WithinType",
    "expression_from_json",
    "expression_to_json",
    "field",
]

publish(__name__, __all__)
