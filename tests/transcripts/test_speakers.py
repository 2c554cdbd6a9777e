"""Whose words a text is: the tags of clients, tags that no list has, and prompts that waited in
a queue.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reflector.curator.listening import wishes
from reflector.transcripts import speakers
from reflector.transcripts.message import Message
from reflector.transcripts.readers import built_in_readers
from reflector.transcripts.reading import read_messages, scan
from reflector.transcripts.speakers import client_texts, spoken, tag_around
from tests.conftest import assert_linear, first_fast
from tests.road.agent import Agent
from tests.transcripts.agents import EVERY, Claude, Session
from tests.transcripts.records import assistant, attachment, queue, result, user, write

WISH = "Always run the linter before you push."
SPEAKERS = Path(speakers.__file__).with_name("speakers.tsv")
LISTS = [row.text for row in client_texts() if row.kind in ("beside", "instead")]
TAGS = sorted(set(" ".join(LISTS).split()))
NOTES = [
    "Another Claude session sent a message:",
    "A peer session sent a message while you were working:",
    "The coordinator sent a message while you were working:",
    "Activity was observed in the bound conversation:",
    "[SYSTEM NOTIFICATION - NOT USER INPUT]",
    '[Cross-session idle notice] "builder"',
]


def tagged(tag: str) -> str:
    return f'<{tag} from="a > b">\n{WISH}\n</{tag}>'


def spoken_by(path: Path, *records: Any) -> list[Message]:
    """The messages of a session between its first prompt and its last answer that stand under
    the user's name.
    """
    write(
        path,
        [user(1, "Fix the cart."), assistant(2, "On it."), *records, assistant(90, "All right.")],
    )
    return [one for one in list(read_messages(path))[1:] if one.role == "user" and not one.results]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def test_each_listed_client_names_its_version() -> None:
    rows = [row.split("\t") for row in SPEAKERS.read_text("utf-8").splitlines()[1:]]
    versions = {client: text for client, kind, text in rows if kind == "version"}
    assert versions.keys() == {client for client, _, _ in rows}
    assert versions.keys() <= {reader.name for reader in built_in_readers()}
    assert all(version.count(".") == 2 for version in versions.values())


def test_tags_of_a_reader_are_listed() -> None:
    tags = [tag for reader in built_in_readers() for tag in reader.tags.split()]
    assert tags
    assert {*tags} <= {*TAGS}


@pytest.mark.parametrize("tag", TAGS)
def test_words_in_a_listed_tag_are_nobodys_wish(path: Path, tag: str) -> None:
    texts = [
        tagged(tag),
        f"<{tag}>{WISH}</{tag}>",
        f"What does this mean?\n{tagged(tag)}\nPlease look.",
    ]
    found = spoken_by(path, *(user(3 + n, text) for n, text in enumerate(texts)))
    assert list(wishes(found)) == []
    assert [one.origin for one in found] == ["injected", "injected", "human"]
    assert WISH not in found[-1].text


@pytest.mark.parametrize("note", NOTES)
def test_a_note_about_another_sender_is_nobodys_wish(path: Path, note: str) -> None:
    (found,) = spoken_by(path, user(3, f"{note}\n{WISH}"))
    assert found.origin == "injected"


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        (tagged("brand-new"), "brand-new"),
        (f"<a>{WISH}</a>\n<b x='1'>{WISH}</b>", "a"),
        (f"<a><a>{WISH}</a></a>", "a"),
        ("<note/>", "note"),
        (f"<brand_new>\n{WISH}", "brand_new"),
        (f"<system-reminder>x</system-reminder>\n{tagged('brand-new')}", "brand-new"),
    ],
)
def test_a_text_inside_an_unlisted_tag_is_unknown(text: str, tag: str) -> None:
    origin, said = spoken(text)
    assert (origin, said) == ("unknown", text)
    assert tag_around(text.partition("</system-reminder>")[2] or text) == tag


@pytest.mark.parametrize(
    "text",
    [
        f"<div> is broken. {WISH}",
        f"<a>{WISH}</a> and more",
        f"Look: <a>{WISH}</a>",
        "a < b and c > d",
        "what is <system-reminder>?",
        "<3 thanks",
    ],
)
def test_a_text_beside_a_tag_is_a_persons(text: str) -> None:
    assert spoken(text) == ("human", text)


@pytest.mark.parametrize("begin", [Claude, *EVERY.values()], ids=["claude code", *EVERY])
def test_every_reader_knows_an_unknown_speaker(
    begin: Callable[..., Session], tmp_path: Path
) -> None:
    session = (
        begin()
        .person("Fix the cart.")
        .model("On it.")
        .person(tagged("brand-new"))
        .model("All right.")
    )
    path = session.write(tmp_path / session.file_name)
    origins = [message.origin for message in read_messages(path)]
    assert (origins.count("human"), origins.count("unknown")) == (1, 1)
    assert [tag for _, tag in scan(path).nobodys] == ["brand-new"]
    assert list(wishes(read_messages(path))) == []


@pytest.mark.parametrize("begin", [Claude, *EVERY.values()], ids=["claude code", *EVERY])
@pytest.mark.parametrize(
    "tag", ["cross-session-message", "teammate-message", "terminal", "slack-ping"]
)
def test_every_reader_knows_every_clients_tags(
    begin: Callable[..., Session], tag: str, tmp_path: Path
) -> None:
    session = (
        begin().person("Fix the cart.").model("On it.").person(tagged(tag)).model("All right.")
    )
    path = session.write(tmp_path / session.file_name)
    assert [message.text for message in read_messages(path) if message.origin == "human"] == [
        "Fix the cart."
    ]


def queued(prompt: str, **more: Any) -> dict[str, Any]:
    return attachment(
        5, {"type": "queued_command", "prompt": prompt, "commandMode": "prompt", **more}
    )


PEER = {"origin": {"kind": "peer", "from": "uds:x"}}
HOP, INNER = tagged("brand-new").replace("from", 'hop-chain="a,b" from'), tagged("brand-new")


@pytest.mark.parametrize(
    "records",
    [
        [queue("enqueue", WISH), queue("remove", WISH), queued(WISH, **PEER)],
        [queue("enqueue", WISH), queued(WISH, **PEER), queue("remove", WISH)],
        [
            queue("enqueue", WISH),
            queue("remove", WISH),
            user(3, [result("ok")]),
            queued(WISH, **PEER),
        ],
        [
            queue("enqueue", WISH),
            queue("remove", WISH),
            user(3, "A note.", isMeta=True),
            queued(WISH, **PEER),
        ],
        [queue("enqueue", WISH), queue("remove"), queued(WISH, **PEER)],
        [queue("enqueue", HOP), queue("remove", INNER), queued(WISH, **PEER)],
        [queue("enqueue", INNER), queue("remove", INNER), queued(WISH, **PEER)],
        [queue("enqueue", WISH), queue("remove", WISH), queued(WISH, isMeta=True)],
        [queue("enqueue", WISH), queue("remove", WISH), queued(WISH, fromAnotherSession=True)],
        [
            {**queue("enqueue", f"Read this. {WISH}"), "commandUuid": "c-1"},
            {**queue("remove"), "commandUuid": "c-1"},
            queued(WISH, source_uuid="c-1", **PEER),
        ],
        [queue("enqueue", WISH)],
        [queue("enqueue", INNER), queue("remove", INNER)],
    ],
)
def test_a_queued_message_has_its_deliverers_origin(path: Path, records: list[Any]) -> None:
    found = [one for one in spoken_by(path, *records) if one.text != "A note."]
    assert len(found) == 1
    assert found[0].origin in ("injected", "unknown")
    assert list(wishes(found)) == []


@pytest.mark.parametrize(
    "records",
    [
        [queue("enqueue", WISH), queue("remove", WISH), queued(WISH)],
        [queue("enqueue", WISH), queue("remove", WISH), queued(WISH, origin={"kind": "human"})],
        [queue("enqueue", WISH), queue("remove", WISH)],
        [
            queue("enqueue", INNER),
            queue("enqueue", WISH),
            queue("remove", WISH),
            queued(WISH),
            queue("popAll"),
        ],
        [
            queue("enqueue", "from a peer"),
            queue("enqueue", WISH),
            queue("remove", "from a peer"),
            queue("remove", WISH),
            queued(WISH, origin={"kind": "human"}),
            queued("from a peer", **PEER),
        ],
    ],
)
def test_a_queued_prompt_of_a_person_stays_theirs(path: Path, records: list[Any]) -> None:
    assert [one.text for one in spoken_by(path, *records) if one.origin == "human"] == [WISH]


def test_queued_message_keeps_its_key_in_growing_files(path: Path) -> None:
    records = [queue("enqueue", WISH), queue("remove", WISH), queued(WISH, **PEER)]
    keys = []
    for count in range(1, 4):
        write(path, [user(1, "Fix the cart."), *records[:count]])
        keys.append([message.key for message in read_messages(path)][1:])
    assert keys[0] == keys[1] == keys[2]


@pytest.mark.parametrize(
    "text", first_fast(3, ["<a ", "<terminal>", '<a b="', "<a><b>", "</a>", "<tick/>"])
)
def test_tags_are_read_in_linear_time(text: str) -> None:
    assert_linear(lambda size: spoken(text * size), 5_000)


def test_doctor_counts_messages_of_unknown_speakers(agent: Agent, tmp_path: Path) -> None:
    session = (
        Claude("s-1")
        .person("Fix it.")
        .model("On it.")
        .person(tagged("brand-new"))
        .person(tagged("x"))
    )
    agent.call("ingest", session.model("Done.").write(tmp_path / "s-1.jsonl"))
    (found,) = [check for check in agent.json("doctor", code=None) if check["name"] == "speakers"]
    assert found["state"] == "warning"
    assert "2 messages" in found["text"]
    assert "<brand-new> 1" in found["text"]
    assert "reflector show s-1" in found["mend"]
    assert "brand-new" in agent.call("show", "s-1").out


def test_doctor_is_silent_without_unknown_speakers(agent: Agent, tmp_path: Path) -> None:
    agent.call(
        "ingest", Claude("s-1").person("Fix it.").model("On it.").write(tmp_path / "s-1.jsonl")
    )
    assert "speakers" not in {check["name"] for check in agent.json("doctor", code=None)}
