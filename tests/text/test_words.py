"""The words of texts, in scripts with spaces and in those without."""

import re

import pytest
from hypothesis import given, strategies as st

from reflector.text.words import (
    clusters,
    context_tokens,
    count,
    grams,
    is_unspaced,
    searchable,
    sought,
    terms,
    words_of,
)

#: Advice of several words, and one word, in scripts without spaces.
SAID = [
    ("提交前必须运行测试", "测试"),
    ("提交前必須執行測試", "測試"),
    ("テストを先に書くこと", "データベース"),
    ("รันเทสต์ก่อนคอมมิตเสมอ", "ทดสอบ"),
    ("ທົດສອບກ່ອນສົ່ງສະເໝີ", "ທົດສອບ"),
    ("ធ្វើតេស្តមុនពេលបញ្ជូន", "តេស្ត"),
    ("စမ်းသပ်မှုကိုအရင်လုပ်ပါ", "စာ"),
]
_SPACED = st.text(st.characters(max_codepoint=0x0DFF, exclude_categories=("Cs",)), max_size=80)


@pytest.mark.parametrize(("advice", "word"), SAID)
def test_several_words_without_spaces_are_counted(advice: str, word: str) -> None:
    assert count(advice) > 2
    assert count(word) == 1
    assert count(f"{advice} pnpm") == count(advice) + 1


@given(_SPACED)
def test_spaced_text_is_divided_as_ever(text: str) -> None:
    assert words_of(text) == re.findall(r"\w+", text.casefold())
    assert terms(text) == text.split()
    assert count(text) == len(text.split())
    assert context_tokens(text) == -(-len(text) // 4)
    assert searchable(text) == text
    assert [one.any_of for one in sought(text)] == [
        (word,) for word in dict.fromkeys(words_of(text))
    ]
    assert not grams(text)


def test_marks_and_subscripts_belong_to_their_letter() -> None:
    assert words_of("ก่อนที่") == ["ก่", "อ", "น", "ที่"]
    assert words_of("ស្ត្រី") == ["ស្ត្រី"]
    assert words_of("ＰＮＰＭを使う") == ["pnpm", "を", "使", "う"]
    assert words_of("テスト\u200bを") == words_of("ﾃｽﾄを")


def test_names_stay_whole_between_letters() -> None:
    assert clusters("在src/app.ts里") == ["在", "src/app.ts", "里"]
    assert clusters("src/app.ts") == ["src/app.ts"]


def test_grams_are_pairs_or_threes() -> None:
    assert grams("运行测试 now") == {"运行", "行测", "测试"}
    assert grams("ก่อน") == {"ก่อน"}
    assert grams("テスト") == {"テスト"}


@pytest.mark.parametrize(("advice", "word"), SAID)
def test_each_letter_without_spaces_is_a_token(advice: str, word: str) -> None:
    assert context_tokens(advice) == len(advice)
    assert context_tokens(f"{word}abcd") == len(word) + 1


@given(st.text(max_size=80))
def test_any_text_is_divided(text: str) -> None:
    assert 0 <= count(text) <= len(text)
    assert context_tokens(text) <= len(text)
    assert all(one.any_of for one in sought(text))
    assert is_unspaced(text) or searchable(text) == text


@pytest.mark.slow
def test_time_grows_with_the_text() -> None:
    """A quadratic rule would take minutes."""
    text = "提交前必须运行测试กขค่" * 20_000
    assert len(words_of(text)) == 12 * 20_000
    assert count(text) > 20_000
    assert len(sought(text)) < 100
