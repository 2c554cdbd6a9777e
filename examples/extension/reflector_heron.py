"""An example of an extension: a reader of the sessions of Heron, an invented agent, and a judge
that needs no model.

`docs/extending.md` of reflector explains both contracts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from reflector.judges.model import Client, Reply
from reflector.prices import Usage
from reflector.transcripts import building
from reflector.transcripts.building import (
    Conversation,
    Kept,
    Place,
    fields,
    join_texts,
    objects,
    plain_text,
    short_text,
)
from reflector.transcripts.message import Message, Tally
from reflector.transcripts.records import count_type, record_uuid
from reflector.transcripts.speakers import spoken


class Heron(Conversation):
    """Reads `{uuid, sessionId, timestamp, type, cwd, message: {parts}}` on each line."""

    agent = "heron"
    name = "Heron"
    kept = (Kept("HERON_HOME", ".heron", "projects"),)

    @staticmethod
    def recognises(record: dict[str, Any]) -> bool:
        has_parts = "parts" in fields(record.get("message"))
        return has_parts and building.kind(record) in ("user", "assistant", "tool_result")

    def messages(
        self, record: dict[str, Any], text: bytes, offset: int, tally: Tally
    ) -> Iterator[Message]:
        self.session_id = self.session_id or short_text(record.get("sessionId"))
        uuid = record_uuid(record, text)
        place = Place("", short_text(record.get("timestamp")), offset)
        parts = objects(fields(record.get("message")).get("parts"))
        words = join_texts(building.texts(parts))
        kind = building.kind(record)
        if kind == "assistant":
            calls = tuple(_call(part) for part in parts if "functionCall" in part)
            yield building.by_model(uuid, place, words, calls=calls)
        elif kind == "tool_result":
            for part in parts:
                response = fields(part.get("functionResponse"))
                output = plain_text(fields(response.get("response")).get("output"))
                call_id = short_text(response.get("id"))
                yield building.by_tool(f"{uuid}:{call_id}", place, call_id, output)
        elif kind == "user" and words:
            yield building.by_user(uuid, place, *spoken(words))
        else:
            count_type(tally, record.get("type"))


def _call(part: dict[str, Any]) -> Any:
    call = fields(part.get("functionCall"))
    return building.call(call.get("id"), call.get("name"), call.get("args"))


_SESSION = re.compile(r"<(session-[0-9a-f]{32})>\n(.*)\n</\1>", re.DOTALL)
_CITED = re.compile(r"<cited_ids>\s*(\[.*?\])\s*</cited_ids>", re.DOTALL)
_PRAISE = re.compile(r"\b(?:perfect|that works|well done)\b", re.IGNORECASE)


class Praise(Client):
    """Calls a cited bullet helpful if a later turn of the person praises the work."""

    async def send(self, texts: Sequence[str]) -> Reply:
        prompt = "".join(texts)
        session, cited = _SESSION.search(prompt), _CITED.search(prompt)
        turns = json.loads(session[2]) if session else []
        names = json.loads(cited[1]) if cited else []
        verdicts = [_verdict(name, turns) for name in names]
        answer = {"analysis": "Praise after a citation.", "bullet_tags": verdicts}
        return Reply(json.dumps(answer), "praise/1", "end_turn", Usage())


def _verdict(name: str, turns: list[dict[str, Any]]) -> dict[str, Any]:
    is_cited = False
    for turn in turns:
        content = str(turn.get("content"))
        is_cited = is_cited or f"[{name}]" in content
        if is_cited and turn.get("role") == "user" and _PRAISE.search(content):
            return {
                "name": name,
                "relevant": True,
                "followed": "yes",
                "rationale": "The person praised the work after the citation.",
                "turn": turn.get("turn"),
                "quote": content,
                "sure": "sure",
                "tag": "helpful",
            }
    return {"name": name, "relevant": True, "followed": "unclear", "tag": "neutral"}


def praise(_model: str, _deadline: float) -> Client:
    """Return the judge; it has no model to choose, and answers at once."""
    return Praise()
