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
from reflector.transcripts.building import (
    Conversation,
    Kept,
    Place,
    by_model,
    by_tool,
    by_user,
    join_texts,
    object_in,
    objects_in,
    short_in,
    text_in,
    texts_of,
    tool_call,
)
from reflector.transcripts.message import Message, Tally
from reflector.transcripts.records import JsonObject, count_type, record_uuid
from reflector.transcripts.speakers import spoken


class Heron(Conversation):
    """Reads `{uuid, sessionId, timestamp, type, cwd, message: {parts}}` on each line."""

    agent = "heron"
    name = "Heron"
    kept = (Kept("HERON_HOME", ".heron", "projects"),)

    @staticmethod
    def recognises(record: JsonObject) -> bool:
        has_parts = "parts" in object_in(record, "message")
        return has_parts and text_in(record, "type") in ("user", "assistant", "tool_result")

    def messages(
        self, record: JsonObject, text: bytes, offset: int, tally: Tally
    ) -> Iterator[Message]:
        self.session_id = self.session_id or short_in(record, "sessionId")
        uuid = record_uuid(record, text)
        place = Place("", short_in(record, "timestamp"), offset)
        parts = objects_in(object_in(record, "message"), "parts")
        words = join_texts(texts_of(parts))
        kind = text_in(record, "type")
        if kind == "assistant":
            calls = tuple(_call(part) for part in parts if "functionCall" in part)
            yield by_model(uuid, place, words, calls=calls)
        elif kind == "tool_result":
            for part in parts:
                response = object_in(part, "functionResponse")
                output = text_in(object_in(response, "response"), "output")
                call_id = short_in(response, "id")
                yield by_tool(f"{uuid}:{call_id}", place, call_id, output)
        elif kind == "user" and words:
            yield by_user(uuid, place, *spoken(words))
        else:
            count_type(tally, record.get("type"))


def _call(part: JsonObject) -> Any:
    call = object_in(part, "functionCall")
    return tool_call(call.get("id"), call.get("name"), call.get("args"))


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


def _verdict(name: str, turns: list[JsonObject]) -> JsonObject:
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
