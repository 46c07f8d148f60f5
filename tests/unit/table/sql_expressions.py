"""SQL text as trees, for tests: Flink's planner parses what users write. A Pratt parser."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise

from penstock.table.logical_types import LogicalType, TypeReader


@dataclass(frozen=True)
class Literal:
    text: str
    kind: str
    """number, string, binary, word (TRUE, FALSE, NULL), DATE, TIME, TIMESTAMP, INTERVAL or symbol."""
    type: LogicalType | None = None


@dataclass(frozen=True)
class Name:
    name: str


@dataclass(frozen=True)
class Invocation:
    name: str
    operands: tuple[Tree, ...]
    type: LogicalType | None = None
    """The target of a CAST, the type after RETURNING."""


Tree = Literal | Name | Invocation

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<binary>[xX]'[0-9A-Fa-f]*')
  | (?P<string>'(?:[^']|'')*')
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<word>[A-Za-z_][A-Za-z_0-9$]*)
  | (?P<symbol><>|<=|>=|!=|\|\||[-+*/%=<>(),.\[\]])
    )""",
    re.VERBOSE | re.DOTALL,
)

_BINARY = {
    "OR": 10, "AND": 20, "=": 40, "<>": 40, "!=": 40, "<": 40, ">": 40, "<=": 40, ">=": 40, "LIKE": 40,
    "IS": 40, "IN": 40, "OVERLAPS": 40, "BETWEEN": 40, "||": 50, "+": 50, "-": 50,
    "*": 60, "/": 60, "%": 60, ".": 90, "[": 90,
}  # fmt: skip
_JSON_BEHAVIOURS = {"NULL", "ERROR", "EMPTY", "DEFAULT", "TRUE", "FALSE", "UNKNOWN"}


def parse_list(text: str) -> list[Tree]:
    """Parse expressions that are separated by commas."""
    return _Parser(text).list()


@dataclass
class _Parser:
    text: str
    at: int = field(default=0)

    def list(self) -> list[Tree]:
        trees = [self.tree()]
        while self.take(","):
            trees.append(self.tree())
        if self.peek()[1]:
            raise ValueError(f"expected the end at {self.at}, got {self.text[self.at :]!r}")
        return trees

    def peek(self) -> tuple[str, str]:
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            return "end", ""
        return str(match.lastgroup), match[str(match.lastgroup)]

    def next(self) -> tuple[str, str]:
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            raise ValueError(f"expected a token at {self.at} of {self.text!r}")
        self.at = match.end()
        return str(match.lastgroup), match[str(match.lastgroup)]

    def take(self, *words: str) -> str | None:
        kind, text = self.peek()
        if kind in ("word", "symbol") and text.upper() in words:
            self.next()
            return text.upper()
        return None

    def expect(self, word: str) -> None:
        if not self.take(word):
            raise ValueError(f"expected {word} at {self.at} of {self.text!r}")

    def tree(self, power: int = 0) -> Tree:
        left = self.prefix()
        while True:
            _, text = self.peek()
            binding = _BINARY.get(text.upper(), 0)
            if text.upper() == "NOT":
                binding = 40
            if not binding or binding <= power:
                return left
            self.next()
            left = self.infix(left, text.upper(), binding)

    def infix(self, left: Tree, operator: str, binding: int) -> Tree:
        negated = ""
        if operator == "NOT":
            negated, operator = "NOT ", self.next()[1].upper()
        if operator == ".":
            return Invocation("DOT", (left, Literal(self.next()[1].strip("`"), "symbol")))
        if operator == "[":
            index = self.tree()
            self.expect("]")
            return Invocation("ITEM", (left, index))
        if operator == "IS":
            return self.is_(left)
        if operator == "IN":
            self.expect("(")
            return Invocation(f"{negated}IN", (left, *self.arguments()))
        if operator == "BETWEEN":
            low = self.tree(40)
            self.expect("AND")
            return Invocation(f"{negated}BETWEEN", (left, low, self.tree(40)))
        if operator == "LIKE":
            pattern = self.tree(binding)
            escape = (self.tree(binding),) if self.take("ESCAPE") else ()
            call = Invocation("LIKE", (left, pattern, *escape))
            return Invocation("NOT", (call,)) if negated else call
        right = self.tree(binding)
        if operator == "OVERLAPS":
            assert isinstance(left, Invocation) and isinstance(right, Invocation)
            return Invocation("OVERLAPS", left.operands + right.operands)
        return Invocation("<>" if operator == "!=" else operator, (left, right))

    def is_(self, left: Tree) -> Tree:
        negated = "NOT " if self.take("NOT") else ""
        if self.take("JSON"):
            kind = self.take("VALUE", "SCALAR", "ARRAY", "OBJECT") or "VALUE"
            return Invocation(f"IS {negated}JSON {kind}", (left,))
        if self.take("DISTINCT"):
            self.expect("FROM")
            return Invocation(f"IS {negated}DISTINCT FROM", (left, self.tree(40)))
        return Invocation(f"IS {negated}{self.next()[1].upper()}", (left,))

    def prefix(self) -> Tree:
        kind, text = self.next()
        if kind in ("number", "string", "binary"):
            return Literal(text, kind)
        if kind == "quoted":
            return Name(text[1:-1])
        if kind == "symbol":
            return self.symbol(text)
        word = text.upper()
        if word in ("TRUE", "FALSE", "NULL"):
            return Literal(word, "word")
        if word in ("DATE", "TIME", "TIMESTAMP") and self.peek()[0] == "string":
            return Literal(self.next()[1], word)
        if word == "INTERVAL":
            return self.interval()
        if word == "NOT":
            return Invocation("NOT", (self.tree(30),))
        if word == "CASE":
            return self.case()
        if word in ("ARRAY", "MAP") and self.take("["):
            return Invocation(word, tuple(self.arguments("]")))
        if self.take("("):
            return self.invocation(word, text)
        return Name(text)

    def symbol(self, text: str) -> Tree:
        if text == "-":
            operand = self.tree(70)
            if isinstance(operand, Literal) and operand.kind == "number":
                return Literal("-" + operand.text, "number")
            return Invocation("-", (operand,))
        if text == "+":
            return self.tree(70)
        if text == "(":
            trees = self.arguments()
            return trees[0] if len(trees) == 1 else Invocation("ROW", tuple(trees))
        raise ValueError(f"unexpected {text} at {self.at} of {self.text!r}")

    def interval(self) -> Tree:
        text = self.next()[1]
        reader = TypeReader("INTERVAL " + self.text[self.at :])
        type_ = reader.type()
        self.at = len(self.text) - len(reader.rest)
        return Literal(text, "INTERVAL", type_)

    def case(self) -> Tree:
        operand = None if self.peek()[1].upper() == "WHEN" else self.tree()
        operands: list[Tree] = []
        while self.take("WHEN"):
            condition = self.tree()
            operands.append(condition if operand is None else Invocation("=", (operand, condition)))
            self.expect("THEN")
            operands.append(self.tree())
        operands.append(self.tree() if self.take("ELSE") else Literal("NULL", "word"))
        self.expect("END")
        return Invocation("CASE", tuple(operands))

    def arguments(self, closing: str = ")") -> list[Tree]:
        trees: list[Tree] = []
        if self.take(closing):
            return trees
        trees.append(self.tree())
        while self.take(","):
            trees.append(self.tree())
        self.expect(closing)
        return trees

    def invocation(self, word: str, text: str) -> Tree:
        if word in ("CAST", "TRY_CAST"):
            operand = self.tree()
            self.expect("AS")
            type_ = self.type()
            self.expect(")")
            return Invocation(word, (operand,), type_)
        if word == "EXTRACT":
            unit = self.next()[1].upper()
            self.expect("FROM")
            operand = self.tree()
            self.expect(")")
            return Invocation(word, (Literal(unit, "symbol"), operand))
        if word in ("JSON_OBJECT", "JSON_ARRAY"):
            return self.json_constructor(word)
        if word in ("JSON_EXISTS", "JSON_VALUE", "JSON_QUERY"):
            return self.json_query(word)
        if word in ("TIMESTAMPDIFF", "TIMESTAMPADD"):
            unit = self.next()[1].upper()
            self.expect(",")
            return Invocation(word, (Literal(unit, "symbol"), *self.arguments()))
        trees: list[Tree] = []
        if self.take(")"):
            return Invocation(text, ())
        trees.append(self.tree())
        if word in ("CEIL", "FLOOR") and self.take("TO"):
            trees.append(Literal(self.next()[1].upper(), "symbol"))
        while self.take(","):
            trees.append(self.tree())
        self.expect(")")
        return Invocation(text, tuple(trees))

    def type(self) -> LogicalType:
        reader = TypeReader(self.text[self.at :])
        type_ = reader.type()
        self.at = len(self.text) - len(reader.rest)
        return type_

    def json_constructor(self, word: str) -> Tree:
        operands: list[Tree] = []
        on_null = "NULL" if word == "JSON_OBJECT" else "ABSENT"
        while not self.take(")"):
            at = self.at
            behaviour = self.take("NULL", "ABSENT")
            if behaviour and self.take("ON"):
                self.expect("NULL")
                on_null = behaviour
                continue
            self.at = at
            if word == "JSON_OBJECT":
                self.take("KEY")
                operands.append(self.tree())
                self.expect("VALUE")
            operands.append(self.tree())
            self.take(",")
        return Invocation(word, (Literal(on_null, "symbol"), *operands))

    def json_query(self, word: str) -> Tree:
        operands: list[Tree] = [self.tree()]
        self.expect(",")
        operands.append(self.tree())
        type_ = None
        wrapper = "WITHOUT_ARRAY"
        behaviours: list[Tree] = []
        while not self.take(")"):
            if self.take("RETURNING"):
                type_ = self.type()
            elif how := self.take("WITH", "WITHOUT"):
                kind = self.take("CONDITIONAL", "UNCONDITIONAL") or "UNCONDITIONAL"
                self.take("ARRAY")
                self.expect("WRAPPER")
                wrapper = "WITHOUT_ARRAY" if how == "WITHOUT" else f"{kind}_ARRAY"
            else:
                behaviours.extend(self.behaviour())
        if word == "JSON_QUERY":
            # As in plans: the wrapper, what to do if there is no value, and if there is an error.
            named = {when.text: what for what, when in pairwise(behaviours) if isinstance(when, Literal)}
            of_nothing = Literal("NULL", "symbol")
            behaviours = [named.get("EMPTY", of_nothing), named.get("ERROR", of_nothing)]
            operands.append(Literal(wrapper, "symbol"))
        operands.extend(behaviours)
        return Invocation(word, tuple(operands), type_)

    def behaviour(self) -> list[Tree]:
        """`DEFAULT 42 ON EMPTY` as symbols: what, a value, when."""
        what = self.next()[1].upper()
        assert what in _JSON_BEHAVIOURS, what
        if what == "EMPTY":
            what += "_" + self.next()[1].upper()
        value = [self.tree()] if what == "DEFAULT" else []
        self.expect("ON")
        return [Literal(what, "symbol"), *value, Literal(self.next()[1].upper(), "symbol")]
