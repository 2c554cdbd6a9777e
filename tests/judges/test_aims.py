"""The aims of wishes, which stay the same in other words."""

import pytest

from reflector.judges.reading.aims import aims_of


@pytest.mark.parametrize(
    ("aim", "wishes"),
    [
        ("rg, not grep", ["No, use rg, not grep.", "don't use grep, use rg"]),
        (
            "date-fns, not moment",
            ["We use date-fns here, please no moment.", "use date-fns instead of moment"],
        ),
        ("shorter pr description", ["Keep the PR description short.", "The PR body is too long."]),
        (
            "ask before dependency",
            [
                "Ask before you add a library.",
                "new packages only after I said ok",
                "加新依赖之前先问我",
                "pregúntame antes de añadir dependencias",
            ],
        ),
        (
            "shorter answer",
            ["your replies are too long", "no recap at the end", "回答请简短一点"],
        ),
        (
            "code in english",
            ["All code comments in English.", "Kommentare bitte auf Englisch", "注释都用英文写"],
        ),
        (
            "checks before commit",
            [
                "never commit without running the tests",
                "nothing goes into git unless the suite is green",
                "sempre rode os testes antes de commitar",
                "You did not run the tests!",
                "You forgot to run the tests again.",
            ],
        ),
        (
            "no any",
            ["never use `any` in our types", "unknown instead of any", "stop casting to any"],
        ),
        (
            "no new document",
            [
                "Don't create markdown files.",
                "Don't create docs files unless I ask.",
                "stop leaving NOTES.md around",
                "不要再创建md文档了",
            ],
        ),
        (
            "no unrelated change",
            [
                "only touch what the fix needs",
                "leave code you weren't asked about alone",
                "keep the diff as small as possible",
                "不要改动无关的代码",
            ],
        ),
        (
            "work on branch",
            [
                "every change gets its own feature branch",
                "trunk is off limits for you",
                "nie direkt auf main committen",
                "mainに直接コミットしないで",
            ],
        ),
        (
            "failing test first",
            [
                "for every bug: first a test that fails, then the fix",
                "reproduce it in a red spec before you touch the code",
                "écris d'abord un test qui échoue",
            ],
        ),
        (
            "no comment",
            [
                "skip comments that restate the code",
                "comments say why, not what: no noise",
                "Please stop adding comments like that.",
                "Drop those comments, they just repeat the code.",
            ],
        ),
        (
            "shorter commit title",
            [
                "keep commit subjects under 50 characters",
                "commit titles max 50 chars",
                "subject line too long, 50 is the limit",
            ],
        ),
        ("no credit of agent", ["no co-authored-by lines", "never mention claude in commits"]),
        ("ask before commit", ["don't commit unless I ask", "never push without asking me"]),
        (
            "test in tests/",
            ["Put tests in `tests/`, not beside the code.", "The test belongs in tests/."],
        ),
        ("never amend", ["No, don't amend", "never amend commits", "please no amend"]),
    ],
    ids=str,
)
def test_wishes_in_other_words_share_an_aim(aim: str, wishes: list[str]) -> None:
    assert all(aim in aims_of(wish) for wish in wishes)


@pytest.mark.parametrize(
    "text",
    [
        "Use the new page, not the old one.",
        "If no comments exist, add one.",
        "Go on.",
        "did you ask before you added the library?",
        "you can add packages without asking",
        "fix the failing test first",
        "translate the comments to English",
        "always split big changes into small PRs",
        "the summary page must be short",
        "main must always be deployable",
        "the error message is limited to 50 chars",
        "run the tests and commit",
        "remove the comments that restate the code in parser.rs",
        "I asked Tom about the library",
        "I did not run the tests.",
        "You did not run the tests with coverage.",
        "The test failed in tests/unit/.",
    ],
)
def test_text_of_another_form_has_no_aim(text: str) -> None:
    assert aims_of(text) == frozenset()
