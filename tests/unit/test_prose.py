"""Hold the part of our rules of words that a program can check: CONTRIBUTING.md, "How we write".

Each floor has a number of findings that it may still have, in `prose_findings.toml`. A number may only fall.
`python tests/unit/test_prose.py` prints all findings and lowers the numbers of that file to what it has found.
"""

from __future__ import annotations

import re
import sys
import tomllib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
ALLOWED = Path(__file__).with_name("prose_findings.toml")
# A number may be this much above what is found, or twice as high: small changes need not touch the file.
SPARE_MAX = 10

LINE_LENGTH_MAX = 100

# The longest prefix of a path is its floor.
FLOORS = (
    "src/",
    "src/penstock/api/",
    "src/penstock/common/",
    "src/penstock/connectors/",
    "src/penstock/datastream/",
    "src/penstock/engine/",
    "src/penstock/hosts/logs/",
    "src/penstock/hosts/simulator/",
    "src/penstock/hosts/spark/",
    "src/penstock/hosts/traces/",
    "src/penstock/metrics/",
    "src/penstock/service/",
    "src/penstock/state_processor/",
    "src/penstock/testing/",
    "docs/",
    "docs/internals/",
    "changelog.d/",
    "README.md",
    "CONTRIBUTING.md",
)

# Separates texts that do not belong together: no pattern reaches across it.
END = "\0"


class Rule(NamedTuple):
    """A pattern that our prose avoids, a sentence that has it, and a better one."""

    kind: str
    pattern: str
    bad: str
    good: str
    # A pattern of paths: all others may use the words.
    within: str = ""


# Verbs that end in -ise only in British spelling.
VERB_STEMS = (
    "capital", "central", "custom", "emphas", "equal", "final", "general", "initial", "local", "material",
    "maxim", "minim", "neutral", "normal", "optim", "organ", "parallel", "polar", "priorit", "real", "recogn", "serial",
    "special", "stabil", "standard", "summar", "symbol", "synchron", "util", "visual",
)  # fmt: skip

# Start of a docstring. The mark stands in front of its quotes, so that no comment or page starts like one.
OPENING = "\1"

RULES = (
    # A subject that acts: no possessive without its noun, and no relative clause as the subject.
    Rule("subject", rf"{OPENING}Of ", '"""Of one task."""', '"""Hold what a task needs."""'),
    Rule("subject", rf"{OPENING}(?:Those|That) (?:of|which|who)\b", '"""Those of event time."""', '"""Event time."""'),
    Rule("subject", rf"{OPENING}One ", '"""One event."""', '"""Handle the event."""'),
    Rule("subject", rf"{OPENING}None\b", '"""None: nothing."""', '"""Return None if there is nothing."""'),
    Rule(
        "subject",
        rf"{OPENING}What (?:is|are|was|were|has|have|had|may|can|must|does|needs|a|an|the|it|they|this|that)\b",
        '"""What is written, or None."""',
        '"""Return the text, or None."""',
    ),
    Rule(
        "subject",
        rf"Who(?:ever)?\b(?! am I)[^.?{END}]*[.;:{END}]",
        '"""Who has sent less may have a share."""',
        '"""Give a sender that sent less its share."""',
    ),
    Rule("subject", r"[Ww]hoever\b", "whoever asks gets it.", "the caller gets it."),
    # Positive and literal.
    Rule("negation", r"[Nn]o(?:body|(?<=\bno|\bNo) one)\b(?!`)", "Nobody reads it.", "It is not read."),
    Rule("negation", r"(?:[Aa]ny|[Ss]ome)body\b", "It is no longer anybody's.", "It has no owner."),
    Rule(
        "negation",
        r"none\b(?:(?<=is none)|(?<=are none)|(?<=was none)|(?<=were none)|(?<=has none)|(?<=have none))"
        "(?<!here is none)(?<!here are none)(?<!here was none)",
        "'abc' is none",
        "expected a number, got 'abc'. Raises ValueError if there is none",
    ),
    Rule(
        "negation",
        "no (?:(?<= is no )|(?<= are no )|(?<= was no )|(?<= were no ))"
        "(?<!here is no )(?<!here are no )(?<!here was no )(?<!here were no )"
        r"(?!(?:more|less|longer|later|earlier|further|fewer|larger|smaller|higher|lower|older|newer|better)\b)",
        "{text!r} is no number",
        "{text!r} is not a number, and there is no other, and it is no longer read",
    ),
    Rule("negation", rf"no more\b(?=[.,;:)\"'{END}])", "it is read no more.", "it is no longer read."),
    # Programs do not talk.
    Rule(
        "speech",
        r"\b(?:is|are|was|were|be|been|being) (?:told|asked)\b",
        "The task is told.",
        "The coordinator tells the task.",
    ),
    Rule("speech", r"\b(?:hears?|heard) (?:of|from)\b", "the host hears of it", "the host learns it"),
    Rule("speech", r"\b(?:has|have|had) a word with\b", "has a word with it", "asks it"),
    # Idioms, old words and words that a dictionary of another language suggests.
    Rule("idiom", r"(?:[Gg]o(?:es|ing|ne)?|[Ww]ent) on\b(?! (?:the|a|an|this|its)\b)", "It goes on.", "It continues."),
    Rule(
        "idiom",
        rf"\b(?:is|are|was|were|be|been) over(?=[.,;:)\"'{END}]| and\b| or\b| when\b)",
        "All is over.",
        "It ended.",
    ),
    Rule("idiom", r"[Aa]new\b", "It starts anew.", "It starts again."),
    Rule("idiom", r"[Bb]y and by\b", "It grows by and by.", "It grows gradually."),
    Rule("idiom", r"(?:[Cc]om(?:es?|ing)|[Cc]ame) about\b", "as it comes about", "when it happens"),
    Rule("idiom", r"[Ww]ithout a word\b", "ends without a word", "ends silently"),
    Rule("idiom", r"[Bb]esides?\b", "It runs beside other work.", "It runs while other programs run."),
    # Numbers and signs.
    Rule("sign", r"(?:\d|%[ds]|\})\. (?:time|attempt|of|line|record)\b", "for the %d. time", "attempt %d of %d"),
    Rule("sign", "[\u201c\u201d\u2018\u2019\u201e\u201a\u00ab\u00bb]", "a \u201cchunk\u201d", 'a "chunk"'),
    # American spelling.
    Rule(
        "spelling",
        r"ou(?:(?<=aviou)|(?<=colou)|(?<=avou)|(?<=honou)|(?<=labou)|(?<=neighbou)|(?<=Neighbou)|(?<=rumou))r",
        "its behaviour",
        "its behavior",
    ),
    Rule(
        "spelling",
        "is(?:" + "|".join(f"(?<={stem}is)" for stem in VERB_STEMS) + r")(?:e[ds]?|ing|ations?|er)\b",
        "deserialised values",
        "deserialized values",
    ),
    Rule("spelling", r"nalys(?:e[ds]|ing)\b", "is analysed", "is analyzed"),
    Rule("spelling", r"(?:cance|labe|mode|signa|trave|tunne|marsha)ll(?:ed|ing|er)\b", "is cancelled", "canceled"),
    Rule(
        "spelling",
        r"\b(?:centre[ds]?|grey|artefacts?|whilst|amongst|programmes?|licences?|catalogues?|judgement|defence)\b",
        "a grey artefact",
        "a gray artifact",
    ),
    # One term per thing: docs/glossary.md.
    Rule("term", r"(?:piece|segment|batch|slice)(?:e?s)? of records\b", "a batch of records", "a chunk"),
    Rule(
        "term",
        r"[Ss]egments?\b",
        "each segment of a buffer",
        "each chunk or element of a buffer",
        r"src/penstock/(?:engine/runtime/(?:network|task)|hosts)/",
    ),
    Rule(
        "term",
        r"[Bb]ack-?pressure\b(?<!/backpressure)",
        "the backpressure of a task",
        "the back pressure of a back-pressured task",
    ),
    Rule("term", r"[Ss]ub-tasks?\b", "each sub-task", "each subtask"),
    Rule("term", r"[Kk]eygroups?\b", "the keygroup of a key", "the key group of a key"),
    Rule("term", r"(?:[Ss]ave|[Cc]heck)[ -]points?\b", "a save point", "a savepoint"),
    Rule("term", r"[Tt]ime-outs?\b", "a time-out", "a timeout"),
    Rule("term", r"[Jj]ob [Mm]anager\b", "the job manager", "the JobMaster"),
    Rule("term", r"runs? of (?:a|the|this|its) (?:slot|task|region)\b", "the run of a slot", "the attempt of a region"),
)
KINDS = sorted({rule.kind for rule in RULES} | {"line length"})
COMPILED = [(rule, re.compile(rule.pattern), re.compile(rule.within or "")) for rule in RULES]

# A comment, or a string: of three quotes or one, of either sort.
TEXTS = re.compile(
    r"#[^\n]*"
    r'|"""(?:[^"\\]|\\.|"(?!""))*"""'
    r"|'''(?:[^'\\]|\\.|'(?!''))*'''"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'(?:[^'\\\n]|\\.)*'",
    re.DOTALL,
)
# What may stand between strings that make one text, and in front of a docstring.
JOINT = re.compile(r"\s*[fFrRbB]{0,2}")
INDENT = re.compile(r"[ \t]*[rR]?")


class Prose(NamedTuple):
    """The words of a file, and where each part of them begins: in `text`, and in the file."""

    text: str
    starts: list[int]
    offsets: list[int]


def prose_of(program: str) -> Prose:
    """Comments, docstrings, and strings with spaces; strings that the program joins make one text."""
    parts: list[str] = []
    starts: list[int] = []
    offsets: list[int] = []
    length = end = 0
    for match in TEXTS.finditer(program):
        text, start = match.group(), match.start()
        if text[0] == "#":
            opening, content = END, text[1:]
        else:
            quotes = 3 if text[:3] in {'"""', "'''"} else 1
            content = text[quotes:-quotes]
            line = program.rfind("\n", 0, start) + 1
            if quotes == 3 and INDENT.fullmatch(program, line, start):
                opening = END + OPENING
            elif parts and JOINT.fullmatch(program, end, start):
                opening = ""
            elif " " not in content:
                continue  # a name, such as a key of Flink's
            else:
                opening = END
        parts += [opening, content]
        starts.append(length)
        offsets.append(start)
        length += len(opening) + len(content)
        end = match.end()
    return Prose("".join(parts), starts, offsets)


def findings_in(name: str, prose: Prose, whole: str) -> Iterator[tuple[str, int, str]]:
    """Kind, line and words of all that the rules find."""
    for rule, pattern, within in COMPILED:
        if not within.match(name):
            continue
        for match in pattern.finditer(prose.text):
            part = bisect_right(prose.starts, match.start()) - 1
            line = whole.count("\n", 0, prose.offsets[part]) + prose.text.count("\n", prose.starts[part], match.start())
            yield rule.kind, line + 1, " ".join(match.group().strip(END + OPENING).split())


def findings_in_page(name: str, page: str) -> Iterator[tuple[str, int, str]]:
    """Findings in a page's text, not in the programs and answers that it shows; and lines that could be shorter."""
    lines = page.split("\n")
    shown = False
    for index, line in enumerate(lines):
        fence = line.lstrip().startswith("```")
        shown ^= fence
        if shown or fence:
            lines[index] = ""
        elif (
            len(line) > LINE_LENGTH_MAX
            and not line.startswith(("|", "#", "    "))
            and " " in line.strip()[:LINE_LENGTH_MAX]
        ):
            yield "line length", index + 1, f"{len(line)} characters"
    text = re.sub(r"`[^`\n]*`", "`code`", "\n".join(lines))
    yield from findings_in(name, Prose(text, [0], [0]), text)


def floor_of(name: str) -> str:
    return max((floor for floor in FLOORS if name.startswith(floor)), key=len)


@cache
def findings() -> dict[tuple[str, str], list[str]]:
    """By floor and kind: `path:line: words`."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    # A fragment says what was, in the words of its day: only its lines are measured.
    for path in sorted((ROOT / "changelog.d").glob("*.md")):
        name = path.relative_to(ROOT).as_posix()
        for kind, line, words in findings_in_page(name, path.read_text(encoding="utf-8")):
            if kind == "line length":
                found["changelog.d/", kind].append(f"{name}:{line}: {words}")
    for path in sorted([*(ROOT / "src").rglob("*.py"), *pages]):
        name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        hits = findings_in_page(name, text) if path.suffix == ".md" else findings_in(name, prose_of(text), text)
        for kind, line, words in hits:
            found[floor_of(name), kind].append(f"{name}:{line}: {words}")
    return found


@cache
def allowed() -> dict[tuple[str, str], int]:
    table = tomllib.loads(ALLOWED.read_text(encoding="utf-8"))
    return {(floor, kind): count for floor, kinds in table.items() for kind, count in kinds.items()}


@pytest.mark.parametrize("floor", FLOORS)
def test_no_floor_has_more_than_before(floor: str) -> None:
    """Users would read messages and pages that have to be translated a second time."""
    more = {
        kind: found
        for kind in KINDS
        if len(found := findings().get((floor, kind), [])) > allowed().get((floor, kind), 0)
    }
    lines = [f"{kind}: {line}" for kind, found in more.items() for line in found]
    assert not more, "\n".join(["rewrite as CONTRIBUTING.md says, how we write:", *lines])


def test_numbers_fall_with_what_they_count() -> None:
    """What one change has mended, the next one could write again."""
    found = {key: len(findings().get(key, [])) for key in allowed()}
    too_high = {key: (number, found[key]) for key, number in allowed().items() if number > 2 * found[key] + SPARE_MAX}
    assert not too_high, f"run `python {Path(__file__).relative_to(ROOT)}`, which lowers the numbers"


def test_numbers_are_of_floors_and_kinds() -> None:
    """A number with a misspelled name would be held against nothing."""
    assert allowed().keys() <= {(floor, kind) for floor in FLOORS for kind in KINDS}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.pattern)
def test_a_rule_finds_what_it_is_for(rule: Rule) -> None:
    """A pattern that finds nothing would pass whatever is written."""
    name = "src/penstock/engine/runtime/network/buffer.py"
    bad, good = (sentence if '"""' in sentence else f"log({sentence!r})" for sentence in (rule.bad, rule.good))
    assert rule.kind in {kind for kind, _, _ in findings_in(name, prose_of(bad), bad)}
    assert not [*findings_in(name, prose_of(good), good)]


def test_texts_of_a_program_are_found() -> None:
    """The check would pass over comments, or over messages that take several lines."""
    program = 'def f():\n    """Of one."""\n    # by and by\n    raise E(f"it is "\n    "none", key["who"])\n'
    assert [*findings_in("src/penstock/x.py", prose_of(program), program)] == [
        ("subject", 2, "Of"),
        ("negation", 5, "none"),
        ("idiom", 3, "by and by"),
    ]


def test_lines_of_a_page_are_measured() -> None:
    """Long lines can't be compared, and tables and programs can't be wrapped."""
    long = "word " * 30
    page = f"{long}\n| {long} |\n```\n{long}\nby and by\n```\n{'x' * 120}\n`anew`\n{long}"
    found = [(kind, line) for kind, line, _ in findings_in_page("docs/index.md", page)]
    assert found == [("line length", 1), ("line length", 9)]


def lower_the_numbers() -> None:
    """Print all findings, and write their numbers where these are lower than what is allowed."""
    for key in sorted(findings()):
        for line in findings()[key]:
            print(f"{key[1]}: {line}")
    table = []
    for floor in FLOORS:
        counts = {kind: min(len(findings().get((floor, kind), [])), allowed().get((floor, kind), 0)) for kind in KINDS}
        table += ["", f'["{floor}"]', *(f'"{kind}" = {count}' for kind, count in counts.items() if count)]
    ALLOWED.write_text(
        "# Findings of test_prose.py that are still there. Lower them; zero is not listed.\n" + "\n".join(table) + "\n"
    )


if __name__ == "__main__":
    sys.exit(lower_the_numbers())
