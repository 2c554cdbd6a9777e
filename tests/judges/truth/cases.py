"""Small attempts, a model that answers from a list, and texts that break whoever formats them
twice or cuts them.
"""

import json
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from reflector.ground_truth import (
    Bullet,
    Insight,
    Playbook,
    Trajectory,
)


def attempt(used: Iterable[str] = (), **fields: Any) -> Trajectory:
    values: dict[str, Any] = {
        "query": "Add two numbers.",
        "dataset": "sums",
        "generated_answer": "def add(a, b):\n    return a - b",
        "reasoning_steps": ["Read the task.", "[pat-001] Subtract b."],
        "used_bullet_ids": list(used),
        "status": "failure",
    }
    return Trajectory(**(values | fields))


def bullet(id_: str, content: str = "Check the operator.") -> Bullet:
    return Bullet(id=id_, section="PATTERNS & APPROACHES", content=content, searchable_text=content)


def insight(key: str = "Check the operator.") -> Insight:
    return Insight(
        reasoning="r",
        error_identification="e",
        root_cause_analysis="c",
        correct_approach="a",
        key_insight=key,
    )


def insights(*keys: str) -> str:
    return json.dumps({"insights": [insight(key).model_dump() for key in keys]})


def verdict(tag: str = "helpful", reason: str = "It helped.") -> str:
    return json.dumps({"bullet_id": "whatever", "tag": tag, "reason": reason})


def script(said: str, bad: str | Exception = "no JSON") -> list[str | Exception]:
    """Answers of a model: `+` is a helpful and `x` a harmful verdict, `-` is bad, any other word
    an insight.
    """
    verdicts = {"+": verdict(), "x": verdict("harmful"), "-": bad}
    return [verdicts.get(word) or insights(word) for word in said.split()]


class Model:
    """Answers with each of its answers in turn; an exception among them is raised, and after the
    last it refuses.
    """

    name = "model"

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.prompts: list[str] = []

    def invoke_with_template(self, prompt: str) -> str:
        self.prompts.append(prompt)
        if not self.answers:
            raise RuntimeError("no answer is left")
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Store:
    """Playbooks that are never recorded."""

    def __init__(self, *bullets: Bullet) -> None:
        self.playbook = Playbook(bullets=list(bullets))

    def load(self, dataset: str) -> Playbook:
        return self.playbook


NASTY = (
    *(
        "{x}",
        "{{}}",
        "{0.__class__}",
        "{generated_answer}",
        "{previous_insights!r:>9999999999}",
        "%s %(x)s $x ${x}",
    ),
    *(
        ('```json\n{"insights": []}\n```'),
        "</think>",
        "</test_report>",
        '{"insights": [',
        '"tag": "helpful"}',
    ),
    *("\\", '\\"\\u0000\\n', "日本語 🐍 é\u0301 \u202e \u2028 \ufeff", "\r\n\t\x1b[31m\x07"),
    *("x" * (1 << 20), ("{" * 64 + "}" * 64) * 8192),
)
TEXTS = (
    st.sampled_from(NASTY)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
    | st.lists(st.sampled_from(NASTY[:-2]) | st.text(max_size=5), max_size=4).map("".join)
)
FILLED = TEXTS.filter(bool)


INSIGHTS = st.builds(Insight, **dict.fromkeys(Insight.model_fields, TEXTS))
