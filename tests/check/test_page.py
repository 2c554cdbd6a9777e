"""The page at 80 columns and 24 lines, whatever the project is like."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from reflector.audit.checked import Checked
from reflector.check.closing import closing, spent_words
from reflector.check.facts import FileFacts, HeadingFacts, PageFacts, Repeated, Step
from reflector.check.page import HEIGHT, WIDTH, page_lines
from reflector.check.plan import Plan, Typed
from reflector.text.width import width
from tests.check.facts import TODAY, counts, page, rule, shop

CHINESE = (
    "每次提交之前必须运行全部测试，并且在同一个提交里更新相应的文档和变更记录，不要跳过任何一步。"
)


def lines_of(facts: PageFacts, *, whole: bool = False) -> list[str]:
    return page_lines(facts, TODAY, whole=whole)


def test_page_shows_the_rules_to_look_at() -> None:
    assert lines_of(shop()) == [
        "CLAUDE.md: 13 rules, 18 facts, 940 tokens per session",
        "32 sessions since 1 Aug, 11 since the last edit. Nothing was sent anywhere.",
        "LOOK AT THESE",
        "  21  Run `make lint` before you commit.   run in 3 of 9 sessions that committed",
        "  14  Never use `strings.Contains` in parsers.",
        "      Claude wrote it in 6 of 11 sessions; before the rule, in 4 of 21",
        "  33  Answer each review comment in its own thread.",
        "      you repeated this rule in 4 of 11 sessions, last on Friday; needs a judge",
        '   +  "use pnpm, not npm"               not in a rule; you said it in 5 sessions',
        "  40  Put translations into `locales/`.         locales/ does not exist any more",
        'FOLLOWED: 1 rule, such as "Run `make test` after each chan…" (11 of 11 sessions)',
        "NEVER CAME UP: 1 rule (9 tokens)   NEEDS A JUDGE: 8 rules, 1 of them above",
        "To see every rule, and the sessions of a row marked +: check --all",
        "To keep these counts when your agent deletes its sessions: reflector install",
    ]


def older() -> PageFacts:
    rules = [rule(1, since=counts(0), before=counts(20, said=3))]
    return page(*rules, since_edit=0)


def facts_only() -> PageFacts:
    headings = (HeadingFacts("CLAUDE.md:2", "Layout", 18, 400, 2),)
    return page(facts=headings)


PAGES = {
    "broken rules": (shop, "LOOK AT THESE"),
    "facts only": (facts_only, "These files do not contain a rule that a session could"),
    "older than its file": (older, "none, because every session is older than these rules."),
    "no sessions": (
        lambda: page(rule(since=counts(0)), sessions=0, first=None, since_edit=None),
        "reflector found no session of this folder. Nothing was sent anywhere.",
    ),
    "no git": (
        lambda: page(rule(since=counts(0), unknown=counts(9, said=2)), since_edit=None),
        "you repeated this rule in 2 of 9 sessions",
    ),
    "Chinese": (lambda: page(rule(3, CHINESE, since=counts(said=2))), "   3  每次提交之前"),
    "many rules": (
        lambda: page(*(rule(index, since=counts(said=1)) for index in range(1, 150))),
        "and 134 more: check --all",
    ),
    "many files": (
        lambda: page(files=tuple(FileFacts(f"rules/{name}.md", 2, 1, 40) for name in "abcde")),
        "5 files: 10 rules, 5 facts, 200 tokens per session",
    ),
    "a line break in a name": (
        lambda: page(files=(FileFacts("a\nLOOK AT THESE: none.md", 1, 0, 40),)),
        "a LOOK AT THESE: none.md: 1 rule, 0 facts, 40 tokens per session",
    ),
    "only imports": (
        lambda: page(files=(FileFacts("CLAUDE.md", 0, 0, 3, imports=("AGENTS.md",)),)),
        "CLAUDE.md: imports AGENTS.md",
    ),
    "some files only": (
        lambda: page(files=(FileFacts("ts.md", 1, 0, 40, ("src/**/*.ts",)),)),
        "ts.md: 1 rule, 0 facts, 40 tokens only for src/**/*.ts",
    ),
    "a judge was asked": (lambda: page(rule(), was_sent=True), "11 since the last edit."),
}


@pytest.mark.parametrize("case", PAGES)
def test_page_names_the_state_of_the_project(case: str) -> None:
    facts, words = PAGES[case]
    assert any(words in line for line in lines_of(facts()))


@pytest.mark.parametrize("case", PAGES)
def test_page_fits_a_terminal(case: str) -> None:
    shown = lines_of(PAGES[case][0]())
    assert len(shown) <= HEIGHT
    assert max(map(width, shown)) <= WIDTH


_PRINTABLE = st.characters(exclude_categories=["C", "Z"], include_characters=" ")


@given(
    st.lists(st.text(_PRINTABLE, min_size=1, max_size=200), max_size=40),
    st.integers(0, 3),
)
def test_any_text_fits_a_terminal(texts: list[str], said: int) -> None:
    rules = [rule(index, text, since=counts(said=said)) for index, text in enumerate(texts, 1)]
    shown = lines_of(page(*rules, repeated=tuple(Repeated(text, 2) for text in texts)))
    assert len(shown) <= HEIGHT
    assert max(map(width, shown)) <= WIDTH


def test_whole_page_shows_every_rule_in_full() -> None:
    text = "Write " + "very " * 40 + "long rules."
    rules = [rule(1, text, since=counts(said=1)), *shop().rules]
    shown = " ".join(" ".join(lines_of(replace(shop(), rules=tuple(rules)), whole=True)).split())
    missing = [each.text for each in rules if each.text not in shown]
    assert missing == []
    assert "CLAUDE.md:2 Layout: 18 facts, 400 tokens, named in 3 of 32 sessions" in shown


@pytest.mark.parametrize(
    ("rules", "evidence"),
    [
        ((), "you asked for tests in 3 sessions; no rule asks for this"),
        (("CLAUDE.md:9",), "you asked for tests in 3 sessions; see CLAUDE.md:9"),
    ],
)
def test_topic_names_the_rules_about_it(rules: tuple[str, ...], evidence: str) -> None:
    asked = Repeated("Add a test.", 3, "tests", rules, {"a1b2c3d4e5": "Please add a test."})
    facts = page(rule(), repeated=(asked,))
    assert evidence in "".join(lines_of(facts))
    assert '      a1b2c3d4  "Please add a test."' in lines_of(facts, whole=True)


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ((), "To turn your words into a rule"),
        (("CLAUDE.md:8",), "To add a clearer rule than CLAUDE.md:8"),
    ],
)
def test_page_of_your_words_ends_with_a_command(rules: tuple[str, ...], reason: str) -> None:
    repeated = Repeated("Add a test.", 3, "tests", rules, {"s-1": "Add a test."})
    facts = page(rule(), repeated=(repeated,))
    steps = closing(facts, Plan(""), Typed(), lambda *words: " ".join(words), keep_with="")
    assert steps[0] == Step(reason, 'add pat "…"')


def test_line_of_parts_leaves_its_command_whole() -> None:
    rules = [rule(index, has_words=True, tokens=999_999) for index in range(200)]
    rules += [rule(900 + index, since=counts(0), before=counts(5)) for index in range(200)]
    rules += [rule(1_900 + index) for index in range(200)]
    assert "To see every rule: check --all" in lines_of(page(*rules))


@pytest.mark.parametrize(
    ("since", "unknown", "words"), [(0, 9, "9 sessions"), (11, 1, "1 session")]
)
def test_page_names_sessions_of_unknown_start(since: int, unknown: int, words: str) -> None:
    shown = lines_of(page(rule(since=counts(since), unknown=counts(unknown))))
    assert f"The counts include up to {words} that may be older than a rule." in shown


@pytest.mark.parametrize(("since_edit", "number"), [(0, "none"), (11, "11"), (32, "all")])
def test_sessions_since_the_edit_are_counted(since_edit: int, number: str) -> None:
    shown = lines_of(page(rule(), since_edit=since_edit))
    assert f"32 sessions since 1 Aug, {number} since the last edit." in shown[1]


def test_files_without_rules_show_their_facts() -> None:
    assert lines_of(facts_only())[2:5] == [
        "These files do not contain a rule that a session could follow or break.",
        "OTHER COUNTS",
        "   2  Layout: 18 facts, 400 tokens                     named in 2 of 32 sessions",
    ]


def quiet() -> PageFacts:
    often = rule(6, has_words=True, names_command=True, since=counts(9, ran=8))
    run = rule(7, has_words=True, names_command=True, since=counts(9, ran=2))
    headings = (
        HeadingFacts("CLAUDE.md:2", "Layout", 18, 400, 2),
        HeadingFacts("CLAUDE.md:30", "Hosts", 3, 50, 0),
    )
    return page(often, run, facts=headings)


def test_page_without_a_fault_shows_counts() -> None:
    shown = lines_of(quiet())
    assert shown[3] == "OTHER COUNTS"
    assert [line.split()[0] for line in shown[4:10]] == ["7", "the", "6", "the", "30", "NEEDS"]
    assert shown[5].strip().endswith("in 2 of 9 sessions")
    assert shown[8].endswith("named in 0 of 32 sessions")


def test_whole_page_begins_with_facts_that_none_named() -> None:
    facts = [line for line in lines_of(quiet(), whole=True) if "tokens, named in" in line]
    assert [line.split()[0] for line in facts] == ["CLAUDE.md:30", "CLAUDE.md:2"]


def test_few_sessions_claim_nothing_of_facts() -> None:
    shown = "\n".join(lines_of(replace(quiet(), sessions=4)))
    assert "in 2 of 9 sessions" in shown
    assert "named in" not in shown


def test_new_rule_has_the_counts_before_it() -> None:
    row = "   1  Keep functions small.     before the rule: you said it in 3 of 20 sessions"
    assert lines_of(older())[4] == row


def test_places_of_several_files_are_shown() -> None:
    other = replace(rule(since=counts(said=1)), place=".claude/rules/typescript/style.md:12")
    files = (
        FileFacts("CLAUDE.md", 1, 0, 9),
        FileFacts(".claude/rules/typescript/style.md", 1, 0, 9),
    )
    shown = lines_of(page(other, rule(7, since=counts(said=2)), files=files))
    assert any(line.lstrip().startswith("CLAUDE.md:7 ") for line in shown)
    assert any("…/typescript/style.md:12"[-20:] in line for line in shown)


def test_followed_before_the_line_existed_is_named() -> None:
    shown = lines_of(shop(), whole=True)
    assert any(
        "sessions also followed the advice before the rule existed" in line for line in shown
    )


def test_command_to_copy_is_whole() -> None:
    command = f"reflector check '{'a folder/' * 12}CLAUDE.md' --judge anthropic"
    shown = lines_of(page(rule(), closing=(Step("The 7, read by a judge", command),)))
    assert shown[-2:] == ["The 7, read by a judge:", command]


def test_rows_with_the_same_evidence_take_one_line() -> None:
    """The evidence is below the first of them alone."""
    lint = replace(shop().rules[2], since=counts(came_up=1), is_before=True)
    texts = [f"Always run `make {'x' * number}` before you commit a change." for number in (9, 60)]
    alike = [replace(lint, place=f"CLAUDE.md:{len(text)}", text=text) for text in texts]
    assert lines_of(page(*alike))[3:6] == [
        f"  55  {texts[0]}",
        "      not run beforehand in the only session that committed",
        f" 106  Always run `make {'x' * 46}…  as above",
    ]


def test_long_evidence_keeps_its_end() -> None:
    names = "`panic!` or `unreachable!` or `unwrap_or_default` or `unsafe_code`"
    facts = page(rule(has_words=True, forbids=True, breached=names, since=counts(22, written=3)))
    shown = lines_of(facts)
    end = next(line for line in shown if line.endswith("3 of 22 sessions"))
    assert "…" not in end
    assert max(map(len, shown)) <= WIDTH


@pytest.mark.parametrize(
    ("cost", "price"), [("0", "$0.00"), ("0.0021", "less than $0.01"), ("0.01", "$0.01")]
)
def test_small_price_is_not_shown_as_zero(cost: str, price: str) -> None:
    checked = Checked((), sessions=1, requests=1, tokens=2_100, cost=cost)
    assert spent_words(checked).endswith(f"2,100 tokens, {price}.")
