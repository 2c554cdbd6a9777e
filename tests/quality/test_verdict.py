"""What an answer in words says of a step (E-07): its own score, else praise and blame as their
clauses have them.
"""

import time

import pytest
from hypothesis import given, strategies as st

from reflector.quality.verdict import score_in_words

DENIED_PRAISE = """
The response is not correct.
This is not complete.
Not good.
It does not pass.
This isn’t good.
It is NOT correct.
This is **not** correct
It is not, in my view, correct.
not (yet) correct
not entirely correct
not correct and complete
The code is not correct, complete, or accurate.
The answer is not wrong, but not complete.
It is neither complete, nor accurate.
Neither the code nor the explanation is correct.
I do not believe the answer is correct.
I doubt that it is correct.
Nothing about this is correct.
No part of the answer is accurate.
Not all tests passed.
never passes
It's hardly accurate.
far from complete
The code is only partially correct
Is it correct? No.
Correct: no
Complete: false.
correct=false
"""
BLAME = """
The test failed.
The response is incorrect.
It does not handle errors.
It answers without handling errors.
not without issues
It is not free of errors.
"""
PRAISE = """
Correct and complete.
Nothing wrong here; passes.
no missing parts, all correct
error-free and correct
I found 0 issues. Good.
without errors and complete
I could not find any errors, and it is complete.
It doesn't contain errors and is correct.
Good: no errors, issues, or any problems.
It is not only correct but complete.
No doubt it is correct.
No, this is correct.
Not wrong at all: the answer is correct.
Errors: none. Complete: yes.
Is it correct? Yes.
never fails, good
"""
BOTH = """
Correct, but one test is missing.
All correct except the port.
It is correct but not complete.
"""
NOTHING = """
Hm.
Nothing is missing.
It isn't wrong.
There is no issue.
No test failed.
not incorrect
Errors: none
Is it correct?
It should be correct.
It could be more accurate.
a prefix of errorless goodness
pass the token to the handler
"""


BLOCKS = ((DENIED_PRAISE, 0.3), (BLAME, 0.3), (PRAISE, 0.8), (BOTH, 0.4), (NOTHING, None))
SENTENCES = [(text, score) for block, score in BLOCKS for text in block.strip().split("\n")]


@pytest.mark.parametrize(
    ("text", "score"), [*SENTENCES, ("It is not\ncorrect.", 0.3), ("No errors\nCorrect", 0.8)]
)
def test_a_sentence_means_what_a_person_reads(text: str, score: float | None) -> None:
    assert score_in_words(text) == score


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("Quality score: 0.9", 0.9),
        ("quality_score: 0.2. It is correct.", 0.2),
        ('{"quality_score": 0.9, "issues": [}', 0.9),
        ('{"quality_score": "0.9", "issues": ["a', 0.9),
        ("The quality score is **0.35** because errors remain.", 0.35),
        ("**Quality**: 8/10 good", 0.8),
        ("Overall rating: 90%", 0.9),
        ("Fine.\nScore: 2 out of 5, correct", 0.4),
        ("quality score: -1", 0.0),
        ("Score: 1", 1.0),
        ("Score: 7. It is correct.", 0.8),
        ("quality: 0 errors, complete", 0.8),
        ("The quality score must be above 0.5. It is wrong.", 0.3),
        ("A risk score of 0.9, but correct", 0.8),
        ('{"quality_score": 1e999}', None),
    ],
)
def test_a_stated_score_goes_before_the_words(text: str, score: float | None) -> None:
    assert score_in_words(text) == score


@given(
    st.lists(
        st.sampled_from(
            ["not ", "correct", ", ", "no ", "errors", "? ", ": ", "nor ", "\n", "quality 0.", "'"]
        )
    )
)
def test_no_words_break_the_reading(pieces: list[str]) -> None:
    score = score_in_words("".join(pieces))
    assert score is None or 0.0 <= score <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", ["not ", "\n", "a\n", '"', "Score ", "correct, ", "quality ", "-", ".\n", "nor "]
)
def test_a_long_answer_is_read_in_linear_time(piece: str) -> None:
    begun = time.process_time()
    score_in_words(piece * (200_000 // len(piece)) + "correct")
    assert time.process_time() - begun < 5
