"""The state of a session's last judging, kept beside the ledger: the judging of the next window resumes from it.

Invariant: the tags and rationales are those of judging from the first citation; the state only saves time. It is used
for the next window alone, if the scan of that window resumed too (then the bytes before are those that were judged),
and only if every earlier citation is judged again as it was: by the same code, the same names in the same windows, the
same texts, and no other name in brackets that means a bullet. It contains no text of the transcript.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from reflector.events import event as ev
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import Bullet
from reflector.reflection.reflection_events import answer_id, reflection_id_of
from reflector.reflection.window import Reading, names_in, transcript_of
from reflector.transcripts.checkpoint import Places
from reflector.transcripts.citations import CITATION
from reflector.transcripts.message import Message

_PACKAGE = Path(__file__).parents[1]
_MOST_OTHERS = 1000


class Hints(Protocol):
    """Keeps the state of each transcript's last judging."""

    def judged(self, path: Path) -> dict[str, Any]:
        """Return the state that was kept of a transcript; {} if there is none. Raises nothing."""

    def keep_judged(self, path: Path, held: dict[str, Any] | None) -> None:
        """Keep the state; None removes what was kept."""


#: Names in brackets that are not judged, in the words of the agent and of people; whether the recorded window has them.
_Others = dict[str, bool]


@dataclass(slots=True)
class Story:
    """A session as a judge reads it: the state to resume from, the messages, and where to keep the next state.

    held  the state of the last judging, {} if it may not be used
    said  the rationales of its answer, by name
    """

    held: Mapping[str, Any]
    said: Mapping[str, str]
    _read: Callable[[Places, int, _Others], Iterator[Message]]
    _keep: Callable[[dict[str, Any] | None, _Others], None]
    _others: _Others = field(default_factory=dict)

    def messages(self, start: int, conversation: list[Any] | None) -> tuple[Places, Iterator[Message]]:
        """Return what looks for places, and the messages from a place that was kept; (0, None) is the place at which
        judging without a state begins."""
        self._others = dict.fromkeys(self.held["others"], False) if start else {}
        places = Places(conversation)
        return places, self._read(places, start, self._others)

    def keep(self, left: dict[str, Any] | None) -> None:
        """Keep the state for the next window; None for none."""
        self._keep(left, self._others)


def story(hints: Hints, ledger: Ledger, read: Reading, judged: Mapping[str, Bullet], live: Collection[str]) -> Story:
    """Return the story of a window's session, where these bullets are judged and these names mean a bullet."""
    recorded = read.recorded
    transcript = transcript_of(recorded)
    path = Path(transcript["path"])
    windows = [[event.event_id, sorted(names)] for event, names in read.earlier]

    def messages(places: Places, start: int, others: _Others) -> Iterator[Message]:
        def see(message: Message, is_own: bool) -> None:
            if message.origin not in ("model", "human", "refusal") or len(others) > _MOST_OTHERS:
                return
            for text in (message.text, message.thinking):
                for name in CITATION.findall(text) if "[" in text else ():
                    if name not in judged:
                        others[name] = is_own or others.get(name, False)

        return read.messages(live, places=places, start=start, see=see)

    def keep(left: dict[str, Any] | None, others: _Others) -> None:
        # In an earlier window's words a name that is not judged stands without brackets where it means a bullet.
        bare = {name for name in others if name in live}
        if left is None or len(others) > _MOST_OTHERS or any(others[name] for name in bare) or not read.is_of_one_file:
            hints.keep_judged(path, None)
            return
        own = [recorded.event_id, sorted({*judged}.intersection(names_in(recorded, "cited")))]
        texts = {name: _digest(bullet.text) for name, bullet in judged.items()}
        more = {"code": code_digest(), "windows": [*windows, own], "texts": texts}
        hints.keep_judged(path, sealed({**left, **more, "others": sorted(others), "bare": sorted(bare)}))

    held = hints.judged(path) if transcript.get("since") and windows else {}
    is_same = (
        _is_ours(held)
        and held["windows"] == windows
        and all(name in judged and _digest(judged[name].text) == digest for name, digest in held["texts"].items())
        and {name for name in held["others"] if name in live or name in judged} == set(held["bare"])
        and not any(name in judged for name in held["bare"])
    )
    said = _said(ledger, read.earlier[-1][0].event_id, "rules") if is_same else {}
    return Story(held if is_same else {}, said, messages, keep)


def sealed(held: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state with a digest of itself: what was damaged since, or is not ours, lacks the right one."""
    return {**held, "seal": _digest(json.dumps({**held, "seal": ""}, sort_keys=True))}


@cache
def code_digest(package: Path = _PACKAGE) -> str:
    """Return a digest of the whole program: other code, or other tables of words, may read or weigh the same messages
    in another way. "" where the program's files cannot be read: then no state is kept or used.

    All of them, for no list of what judges has to be kept: reading them takes about ten milliseconds, and never in the
    agent's way.
    """
    digest, files = sha256(), 0
    try:
        for path in sorted(package.rglob("[!.]*")):
            if path.is_file() and path.parent.name != "__pycache__":
                text = path.read_bytes()
                files += 1
                digest.update(f"{path.relative_to(package).as_posix()} {len(text)}\n".encode() + text)
    except OSError:
        return ""
    return digest.hexdigest()[:32] if files else ""  # in a zip the package has no folder


def _is_ours(held: Mapping[str, Any]) -> bool:
    """Return whether this code left a state, and nothing changed it."""
    return bool(code_digest()) and held.get("code") == code_digest() and held == sealed(held)


def _said(ledger: Ledger, window_id: str, backend: str) -> dict[str, str]:
    """Return the rationales of a backend's answer about a window, by name."""
    answer = ledger.event(answer_id(reflection_id_of(window_id, backend), 1, 1))
    if answer is None or answer.type != ev.REFLECTION_ANSWERED or answer.data is None:
        return {}
    try:
        return {tag["name"]: tag["rationale"] for tag in json.loads(answer.data["answer"])["bullet_tags"]}
    except (ValueError, LookupError, TypeError):
        return {}


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
