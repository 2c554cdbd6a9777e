"""Duplicates: what is proposed is the same advice, and nothing that differs in a fact ever is."""

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from benchmarks.duplicates import labelled, measure
from reflector.playbook.bullet import Bullet
from reflector.playbook.duplicates import duplicates, near

PAIRS = labelled()
#: Kinds of labelled pairs that no rule about words can see.
OUT_OF_REACH = {"paraphrase"}
TEXT = "Write the failing test first."


def pair(
    first: str,
    second: str,
    *,
    section: str = "pat",
    counters: tuple[int, int, int, int] = (0, 0, 0, 0),
) -> str:
    """The kind of the pair that two texts make; "" for none."""
    a, b = (
        Bullet("pat-001", "pat", first, *counters[:2]),
        Bullet("pat-002", section, second, *counters[2:]),
    )
    return "".join(one.kind for one in duplicates([a, b]))


@pytest.mark.parametrize(
    "one", [one for one in PAIRS if not one.same], ids=lambda one: f"{one.kind}: {one.second}"
)
def test_different_advice_is_never_proposed_as_duplicate(one) -> None:  # type: ignore[no-untyped-def]
    assert pair(one.first, one.second) in ("", "contradiction")
    assert pair(one.second, one.first) in ("", "contradiction")


@pytest.mark.parametrize("half", ["tuned", "held_out"])
def test_precision_and_recall_match_the_documentation(
    half: str,
) -> None:
    of_half = [one for one in PAIRS if one.half == half]
    assert measure(of_half)["precision"] >= 0.95
    assert measure(of_half)["recall"] >= 0.7
    assert measure([one for one in of_half if one.kind not in OUT_OF_REACH])["recall"] >= 0.9


def test_a_pair_says_why_the_two_meet() -> None:
    texts = [
        (TEXT, 1),
        (TEXT, 3),
        (("write the **failing** test first"), 0),
        ("You must write a failing test first.", 0),
    ]
    bullets = [
        Bullet(f"pat-00{n}", "pat", text, helpful)
        for n, (text, helpful) in enumerate(texts, start=1)
    ]
    found = {
        (one.bullets[0].name, one.bullets[1].name): (one.kind, one.why)
        for one in duplicates(bullets)
    }
    assert found["pat-002", "pat-001"] == ("exact", "the same text")
    assert found["pat-002", "pat-003"] == ("normalised", "only case, punctuation or markup differ")
    assert found["pat-001", "pat-004"] == ("near", "the same words, apart from: a, must, the, you")
    assert len(found) == 6


def test_merged_text_is_of_the_better_or_longer() -> None:
    long = (
        "When the API answers 429, wait for the time in Retry-After and repeat the same "
        "request once."
    )
    more = long.replace("the time in", "the whole time in")
    (found,) = duplicates([Bullet("pat-001", "pat", long, 5, 0), Bullet("pat-002", "pat", more)])
    assert found.text == more
    better, worse = (
        Bullet("pat-001", "pat", "Close the files.", 5, 0),
        Bullet("pat-002", "pat", "Always close files!"),
    )
    assert not duplicates([better, worse])  # two words say too little
    better, worse = (
        Bullet("pat-001", "pat", "Close big files.", 5),
        Bullet("pat-002", "pat", "Always close big files!"),
    )
    assert duplicates([worse, better])[0].text == better.text


@pytest.mark.parametrize(
    ("second", "more", "kind"),
    [
        (TEXT, {}, "exact"),
        (TEXT, {"section": "mis"}, "exact"),
        ("**Write the failing test first!**", {"section": "mis"}, "normalised"),
        ("Write failing tests first.", {"section": "mis"}, ""),
        ("Write the failing test--first", {}, "normalised"),
        (TEXT, {"counters": (3, 0, 0, 2)}, "contradiction"),
        (TEXT, {"counters": (3, 0, 2, 2)}, "exact"),
        (TEXT, {"counters": (3, 1, 2, 0)}, "exact"),
        ("Never write the failing test first.", {}, "contradiction"),
    ],
)
def test_section_verdict_and_negation_decide_a_pair(second: str, more: Any, kind: str) -> None:
    assert pair(TEXT, second, **more) == kind
    assert pair("Use mocks in unit tests.", "Avoid mocks in unit tests.") == "contradiction"


def test_pairs_kept_apart_do_not_meet_again() -> None:
    bullets = [Bullet(f"pat-00{n}", "pat", "Write the failing test first.") for n in (1, 2, 3)]
    kept = {frozenset({"pat-001", "pat-002"})}
    assert [sorted(one.names) for one in duplicates(bullets, kept)] == [
        ["pat-001", "pat-003"],
        ["pat-002", "pat-003"],
    ]


def test_near_finds_what_a_new_text_repeats() -> None:
    bullets = [Bullet("pat-001", "pat", TEXT), Bullet("mis-001", "mis", "Write the tests.")]
    (found,) = near("Always write the failing test first", "pat", bullets)
    assert found.names == {"", "pat-001"}
    assert near("Always write the failing test first", "ctx", bullets) == []


_TEXTS = st.sampled_from([text for one in PAIRS for text in (one.first, one.second)])


@given(st.lists(_TEXTS | st.text(max_size=60), max_size=30))
def test_asking_in_another_order_finds_the_same_pairs(texts: list[str]) -> None:
    bullets = [Bullet(f"pat-{n:03d}", "pat", text) for n, text in enumerate(texts)]
    forwards, backwards = (
        {(one.names, one.kind) for one in duplicates(some)} for some in (bullets, bullets[::-1])
    )
    assert forwards == backwards


@example(
    "When the API answers 429, wait for the time in Retry-After and repeat the same request once.",
    "--force",
)
@given(
    _TEXTS,
    st.sampled_from(["7", "v2", "`x_y`", "/etc/hosts", "--force", "never", "unless", "Kubernetes"]),
)
def test_added_number_name_or_negation_is_noticed(text: str, added: str) -> None:
    words = text.rstrip(".").split()
    for place in range(1, len(words) + 1):
        changed = " ".join([*words[:place], added, *words[place:]])
        assert pair(text, changed) in ("", "contradiction"), changed


_UNSPACED = [
    tuple(line.split("\t"))
    for line in (Path(__file__).parent / "unspaced_pairs.tsv").read_text("utf-8").splitlines()
    if not line.startswith("#")
]


@pytest.mark.parametrize("row", _UNSPACED, ids=" ".join)
def test_pairs_without_spaces_are_told_apart(row: tuple[str, ...]) -> None:
    _, kind, first, second = row
    assert (pair(first, second) in ("near", "normalised")) == (kind == "same")
    assert (pair(second, first) in ("near", "normalised")) == (kind == "same")


def test_pairs_without_spaces_are_forty() -> None:
    numbers = Counter((language, kind) for language, kind, *_ in _UNSPACED)
    assert numbers == {
        (language, kind): 4
        for language in ("zh", "ja", "th", "lo", "km")
        for kind in ("same", "apart")
    }


@pytest.mark.parametrize("added", ["不", "只", "子", "7", "`x_y`", "--force"])
def test_cluster_more_is_never_overlooked(added: str) -> None:
    text = "合并分支之前更新依赖并检查变更日志里的条目再通知值班的同事确认发布窗口"
    for place in range(1, len(text)):
        changed = f"{text[:place]}{added}{text[place:]}"
        assert pair(text, changed) in ("", "contradiction"), changed


def test_pair_without_spaces_names_its_difference() -> None:
    (found,) = duplicates(
        [
            Bullet("pat-001", "pat", "切勿把密钥写进日志"),
            Bullet("pat-002", "pat", "不要把密钥写进日志"),
        ]
    )
    assert found.why == "the same words, apart from: 不要, 切勿"


def test_negation_without_spaces_contradicts() -> None:
    assert pair("不要修改生成的文件", "修改生成的文件") == "contradiction"
    assert pair("生成ファイルを編集しない", "生成ファイルを編集する") == "contradiction"
    assert pair("อย่าลบไฟล์ชั่วคราว", "ลบไฟล์ชั่วคราว") == "contradiction"


@pytest.mark.slow
def test_lines_of_one_template_meet_in_bounded_time() -> None:
    """Compared with each other, these would take minutes."""
    words = "run the failing tests before you commit code to main branch today".split()
    order = random.Random(1)
    texts = {" ".join(order.sample(words, len(words))) for _ in range(3_000)}
    bullets = [Bullet(f"pat-{number:04}", "pat", text) for number, text in enumerate(sorted(texts))]
    bullets += [
        Bullet("pat-9998", "pat", "Close the big files"),
        Bullet("pat-9999", "pat", "Always close the big files"),
    ]
    began = time.process_time()
    found = duplicates(bullets)
    assert frozenset({"pat-9998", "pat-9999"}) in {one.names for one in found}
    assert time.process_time() - began < 30
