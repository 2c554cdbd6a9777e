"""What a text says never becomes markup, a link or a style; what is shared tells nothing of
people and places.
"""

import re
from pathlib import Path

from tests.ledger.events import added, reflected, window
from tests.report.conftest import HOSTILE, SECRET, SESSION, Reader, report, speaks
from tests.road.agent import Agent


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
