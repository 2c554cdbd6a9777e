"""What a text says never becomes markup, a link or a style; what is shared tells nothing of
people and places.
"""

import json
import re
from pathlib import Path

import pytest

from reflector.events import event as ev
from reflector.ledger.store import Ledger
from reflector.text.bounds import clean
from tests.ledger.events import about, added, lesson, reflected, window
from tests.report.test_page import Reader, report
from tests.road.agent import Agent

#: Texts that try to be more than text; the 1 MB word is longer than its line.
HOSTILE = [
    json.loads(line)
    for line in Path(__file__).with_name("hostile.txt").read_text("utf-8").splitlines()
]
HOSTILE[HOSTILE.index("W")] *= 1 << 20
SESSION = "5f2a91c0-1111-2222-3333-444455556666"
SECRET = f"ghp_{'a1B2' * 9}"


def speaks(ledger: Ledger, number: int, text: str) -> None:
    """Let a text be a bullet's, and each word of a session on it: quote, reason, judge, id,
    folder and lesson.
    """
    shown = text[:300_000]
    bullet, recorded = (
        added(f"pat-{number:03d}", clean(text, 9_000)),
        window(number, f"{text[:60]}-{number}"),
    )
    recorded.data["transcript"]["path"] = f"/home/ada/{text[:200]}"  # type: ignore[index]
    recorded.data["cited"] = [f"pat-{number:03d}"]  # type: ignore[index]
    done, *tags = reflected(
        f"r{number}", recorded, (f"pat-{number:03d}", "helpful" if number % 2 else "harmful")
    )
    quoted = {"index": 0, "rationale": shown, "quote": text[:2000], "words": text[:40], "turn": 1}
    done.data.update(rationales=[quoted], backend="agent", model=text[:80])  # type: ignore[attr-defined]
    answered = about(ev.REFLECTION_ANSWERED, recorded, answer="{}", model=text[:80])
    answered.meta.update(input_tokens=1000 + number)  # type: ignore[attr-defined]
    ledger.append(
        [bullet, recorded, answered, done, *tags, lesson(f"l{number}", text=shown[:90_000])]
    )


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Agent:
    """A project in which every text is hostile."""
    agent = Agent.in_folder(tmp_path_factory.mktemp("hostile"), {})
    with agent.open_ledger() as ledger:
        for number, text in enumerate(HOSTILE, 1):
            speaks(ledger, number, text.replace("\x00", "\ufffd"))
    return agent


def shape(page: Reader) -> list[tuple[str, tuple[str, ...]]]:
    """The tags of a page with the names of their attributes."""
    return [(tag, tuple(own)) for tag, own in page.tags]


def test_hostile_texts_change_nothing_of_the_structure(attacked: Agent, tmp_path: Path) -> None:
    calm = Agent.in_folder(tmp_path, {})
    with calm.open_ledger() as ledger:
        for number in range(1, len(HOSTILE) + 1):
            speaks(ledger, number, f"plain words {number}")
    for share in ((), ("--share",)):
        html = report(attacked, *share)
        pages = [Reader(html), Reader(report(calm, *share))]
        drawn = {"svg", "g", "path", "line", "rect", "text", "circle", "polyline", "div", "code"}
        of = [[one for one in shape(page) if one[0] not in drawn] for page in pages]
        assert of[0] == of[1]
        assert {tag for tag, _ in pages[0].tags} == {tag for tag, _ in pages[1].tags}
        assert all(not own for tag, own in pages[0].tags if tag == "code")
        assert not {name for _, own in pages[0].tags for name in own} & {
            "style",
            "src",
            "srcset",
            "action",
            "onload",
        }
        assert all((own.get("href") or "#").startswith("#") for _, own in pages[0].tags)
        assert not re.search(
            (
                "[\x00-\x08\x0b-\x1f\x7f\u200b\u202a-\u202e\u2028\u2029\u2066-"
                "\u2069\U000e0000-\U000e007f]"
            ),
            html,
        )
        assert max(map(len, re.findall(r"\w+", pages[0].text))) <= 600
        assert "1337" not in pages[0].text


def test_policy_allows_only_the_files_style_and_script(
    attacked: Agent,
) -> None:
    policy = next(
        own["content"] for tag, own in Reader(report(attacked)).tags if "http-equiv" in own
    )
    assert re.fullmatch(
        r"default-src 'none'; style-src '[^']+'; script-src '[^']+'; base-uri 'none'",
        policy or "",
    )


def test_shared_report_names_no_person_place_or_session(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path, {})
    with agent.open_ledger() as ledger:
        speaks(ledger, 1, f"Ada says: see /home/ada/notes.md and C:\\Users\\ada, token {SECRET}")
        text = (
            f"Look in ~/work/{agent.project.name}/x, not in {agent.project.name}. Session "
            f"{SESSION}."
        )
        ledger.append([added("mis-001", text)])
        recorded = window(2, SESSION)
        done, *tags = reflected("r2", recorded, ("mis-001", "harmful"))
        done.data.update(
            rationales=[
                {
                    "index": 0,
                    "rationale": "Bob said so",
                    "quote": "it broke, Bob",
                    "words": "person",
                }
            ]
        )  # type: ignore[attr-defined]
        ledger.append([recorded, done, *tags])
    whole, shared = (Reader(report(agent, *share)).text for share in ([], ["--share"]))
    for kept in (
        "5f2a91c0",
        "Bob said so",
        "it broke, Bob",
        "/home/ada/notes.md",
        "The playbook of project",
    ):
        assert kept in whole, kept
        assert kept not in shared, kept
    assert not re.search(r"(?<!\[)project(?!\])", shared)
    assert "human" not in shared
    assert "C:\\" not in shared
    assert "Look in [path], not in [project]. Session [id]." in shared
    assert SECRET not in whole + shared
    assert "[redacted:github-token]" in shared
