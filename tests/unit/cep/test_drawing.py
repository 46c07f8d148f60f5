"""Pictures of a pattern."""

from __future__ import annotations

from penstock.cep import AfterMatchSkipStrategy, Pattern, WithinType, field
from penstock.common.time import Duration


def example() -> Pattern[object, object]:
    group = Pattern.begin("retry").where(lambda e: True).next("fail").where(field("code") >= 500)
    return (
        Pattern.begin("start", AfterMatchSkipStrategy.skip_to_last("end"))
        .subtype(str)
        .followed_by(group)
        .times(2, 3, gap=1_500)
        .not_followed_by("cancel")
        .where(lambda e, ctx: True)
        .followed_by_any("end")
        .where(field("name") == "<end>")
        .or_(field("late").is_null())
        .one_or_more()
        .consecutive()
        .greedy()
        .until(field("stop") == 1)
        .within(Duration.of_minutes(5))
        .within(Duration.of_seconds(90), WithinType.PREVIOUS_AND_CURRENT)
    )


def test_the_text_shows_each_part_of_a_pattern() -> None:
    """A user could not see what a pattern that was built in several places looks for."""
    assert example().draw().splitlines() == [
        "start: is str",
        "  ↓ followed by",
        "(",
        "    retry: λ(e)",
        "      ↓ next",
        "    fail: code >= 500",
        ") 2 to 3 times, less than 1500 ms apart",
        "  ✗ not followed by",
        "cancel: λ(e, ctx)",
        "  ↓ followed by any",
        "end: (name == '<end>' or late is null); 1 or more times in a row, greedy, until stop == 1, "
        "less than 90 s after the event before",
        "within 5 min from first to last event",
        "after a match: skip to last end",
    ]


def test_the_chart_has_nodes_groups_and_arrows() -> None:
    """The dashboard would show no picture, or one with the user's text as markup."""
    assert example().draw("mermaid").splitlines() == [
        "flowchart LR",
        '  s0["start<br/>is str"]',
        '  subgraph s1["2 to 3 times, less than 1500 ms apart"]',
        '    s2["retry<br/>λ(e)"]',
        '    s3["fail<br/>code &gt;= 500"]',
        "  end",
        '  s4{{"cancel<br/>λ(e, ctx)"}}',
        "  s5[\"end<br/>(name == '&lt;end&gt;' or late is null)<br/>1 or more times in a row, greedy, until stop == 1, "
        'less than 90 s after the event before"]',
        '  s2 -->|"next"| s3',
        '  s0 -->|"followed by"| s1',
        '  s1 -.->|"not followed by"| s4',
        '  s4 -->|"followed by any"| s5',
        "  s5 --> s5",
    ]


def test_quantifiers_are_shown_in_short() -> None:
    """Two patterns that differ would look alike in a plan."""
    pattern = (
        Pattern.begin("a")
        .times(2)
        .next("b")
        .times(2, 4)
        .followed_by_any("c")
        .times_or_more(3)
        .next("d")
        .one_or_more()
        .optional()
    )

    assert repr(pattern) == "Pattern(a{2} , b{2,4} ... c{3,} , d+?)"
    assert repr(Pattern.begin(Pattern.begin("a").not_next("n"))) == "Pattern((a !, n))"
    assert Pattern.begin("a").draw() == "a: any event"
    assert "within 2 h" in Pattern.begin("a").within(7_200_000).draw()
