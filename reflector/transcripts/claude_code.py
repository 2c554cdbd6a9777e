"""Reads the transcripts of Claude Code, from 1.0.98 to 2.1.2xx, where no release documents its
format.

Invariant: only a record's own top-level `type` makes it a message, each record (by `uuid`) once per
file. `progress` records embed whole messages of subagents, lines of one `message.id` each carry
another block, and metadata repeats words that were said elsewhere: none of it may count twice. Only
what a person typed is "human" or "refusal": the client writes reminders, hook output, command
echoes, notifications and summaries under the type `user` too, and most of them are not flagged.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from reflector.text import bounds
from reflector.transcripts import building, speakers
from reflector.transcripts.building import (
    Conversation,
    Place,
    fields,
    joined,
    objects,
    short,
    whole,
)
from reflector.transcripts.message import Message, Origin, Tally, ToolCall, ToolResult
from reflector.transcripts.records import count_type, record_uuid

#: Types that carry no message; the api-requests repeat what the conversation says.
_METADATA = frozenset(
    """
    progress system summary file-history-snapshot file-history-delta last-prompt custom-title
    ai-title agent-name agent-setting agent-color mode permission-mode pr-link frame-link tag
    task-summary worktree-state bridge-session context-collapse content-replacement
    attribution-snapshot started result session-owner isolation-latch history-suppression
    memory-mode dev-mods derived-from relocated tools-used atis-latch cost-state api-request
    api-request-blob api-request-resumed api-request-shape observer-ref continued-in
    resume-head-vouch ended-by-model data-flow-records data-flow-incomplete hybrid-organization
    repl-mode artifact-comment-monitor artifact-autoreact-ledger fork-context-ref
    """.split()
)
#: Types of Claude Code that no other agent's format uses.
_OWN_TYPES = frozenset(
    """
    file-history-snapshot queue-operation last-prompt custom-title ai-title permission-mode
    frame-link pr-link
    """.split()
)

#: Of a long output the answer holds the first 2 kB only; its end, with the result, is in the
#: details.
_CUT_OUTPUT = "<persisted-output>"
_CALL_TYPES = frozenset(("tool_use", "server_tool_use", "mcp_tool_use"))
#: Attachments that repeat a hook's output as the model gets it, and the events at which the
#: playbook is told.
_ECHOES = frozenset(("hook_success", "hook_additional_context"))
_STARTS = frozenset(("SessionStart", "SubagentStart"))
#: Calls whose tool is remembered until their results come.
_MOST_CALLS = 256

_SUMMARY = "This session is being continued from a previous conversation"

_INTERRUPT = re.compile(r"\[Request interrupted by user(?: for tool use)?\]|\[Skipped by user\]")

#: Openings of a tool result that reports a person's refusal, not a tool's answer.
_REFUSED = re.compile(
    r"(?:Error: )?(?:<tool_use_error>)?"
    r"(?:The user doesn't want to (?:proceed with this tool use|take this action right now)"
    r"|The agent proposed a plan that was rejected by the user"
    r"|User rejected (?:tool use|the plan|update to )"
    r"|User declined to answer questions"
    r"|\[Request interrupted by user)"
)
_REASON = re.compile(r"the user said:|The user provided the following reason for the rejection:")
#: What the client writes in the place of a reason when the person asks to talk about questions
#: first.
_CLARIFIES = "The user wants to clarify these questions."
_ADVICE = "\n\nNote: The user's next message may contain a correction"


class _Queued(NamedTuple):
    """A prompt of the queue: its texts and its ids, and its message unless its own words show
    that nobody typed it.
    """

    texts: list[str]
    ids: frozenset[str]
    message: Message | None


class ClaudeCode(Conversation):
    """Holds what one record says about later ones: chains and queued prompts."""

    agent, name = "claude-code", "Claude Code"

    @staticmethod
    def recognises(record: dict[str, Any]) -> bool:
        kind = record.get("type")
        if kind in ("user", "assistant"):
            # Others write the same envelope around a message of another form.
            message = record.get("message")
            if isinstance(message, dict):
                return "content" in message or not message
            return "message" not in record and "uuid" in record and "sessionId" in record
        if kind in ("system", "attachment", "progress"):
            return "parentUuid" in record or "sessionId" in record
        if kind == "summary":
            return "leafUuid" in record
        return isinstance(kind, str) and (
            kind in _OWN_TYPES or (kind == "mode" and "sessionId" in record)
        )

    def __init__(self) -> None:
        super().__init__()
        self._first_agent: str | None = None
        self._described: tuple[Any, ...] = ()
        self._roots: dict[str, str] = {}
        #: The tools of the newest calls, by the call's id.
        self._tools: dict[str, str] = {}
        self._queue: deque[_Queued] = deque(maxlen=256)
        #: Prompts that the model was given, until a record says by whom or the model answers.
        self._given: deque[_Queued] = deque(maxlen=32)
        #: The answer that was read last, and its tokens: each of its records has them.
        self._answer: tuple[Any, int] = (None, 0)

    def messages(
        self, record: dict[str, Any], text: bytes, offset: int, tally: Tally
    ) -> Iterator[Message]:
        """Yield no message, the record's own, or that of a queued prompt which this record says
        was taken.
        """
        kind = record.get("type")
        if kind in ("assistant", "user"):
            self._describe(record)
            uuid, place = self._placed(record, text, offset)
            message = (self._assistant if kind == "assistant" else self._user)(record, uuid, place)
            # these may stand between a prompt and its attachment
            if message.origin not in ("tool", "injected"):
                yield from self._unexplained()
            yield message
        elif kind == "attachment":
            yield from self._attachment(record, text, offset)
        elif kind == "queue-operation":
            self._queue_operation(record, text, offset)
        elif not isinstance(kind, str) or kind not in _METADATA:
            count_type(tally, kind)

    def _describe(self, record: dict[str, Any]) -> None:
        """Keep the newest session and version, and the agent if the first record has it too."""
        described = (record.get("sessionId"), record.get("version"), record.get("agentId"))
        if described == self._described:
            return  # as the record before it
        self._described = described
        self.session_id = building.path(record.get("sessionId")) or self.session_id
        self.version = building.path(record.get("version")) or self.version
        agent = building.path(record.get("agentId"))
        if self._first_agent is None:
            self._first_agent = agent if record.get("isSidechain") is True else ""
        self.agent_id = agent if agent == self._first_agent else ""

    def leftover(self) -> list[Message]:
        """Prompts that were still queued at the end: nothing delivered them, so nothing says who
        they are from.
        """
        waiting = [queued.message for queued in (*self._given, *self._queue)]
        return [message._replace(origin="unknown") for message in waiting if message is not None]

    @property
    def is_at_rest(self) -> bool:
        """Whether no prompt waits, nothing of our hook is unheard, and no sidechain is known by
        its records alone.
        """
        return not (self._queue or self._given or self._roots or self.heard)

    def _placed(self, record: dict[str, Any], text: bytes, offset: int) -> tuple[str, Place]:
        uuid = record_uuid(record, text)
        return uuid, Place(self._chain(record, uuid), short(record.get("timestamp")), offset)

    def _chain(self, record: dict[str, Any], uuid: str) -> str:
        """Id of the sidechain. Version 1 wrote them inline without `agentId`: the root's uuid
        names them.
        """
        if record.get("isSidechain") is not True:
            return ""
        agent = record.get("agentId")
        if isinstance(agent, str) and agent:
            return short(agent)
        parent = record.get("parentUuid")
        root = self._roots.get(parent, uuid) if isinstance(parent, str) else uuid
        self._roots[uuid] = root
        return root

    def _attachment(self, record: dict[str, Any], text: bytes, offset: int) -> Iterator[Message]:
        """Yield the prompt that arrived while the model worked, with the origin that only its
        attachment has; other attachments repeat what a hook printed.
        """
        attachment = fields(record.get("attachment"))
        if (
            building.kind(attachment) in _ECHOES
            and building.kind(attachment, "hookEvent") in _STARTS
        ):
            self.hear(_texts(attachment.get("content")))
        if attachment.get("type") != "queued_command":
            return
        texts, typed = _texts(attachment.get("prompt")), _is_typed(attachment, record)
        ids = _ids(attachment, "source_uuid", "delivery_id")
        given = _taken(self._given, texts, ids, typed=typed)
        if given is None:
            _taken(self._queue, texts, ids, typed=typed)
            yield _spoken(record, *self._placed(record, text, offset), texts, typed=typed)
        elif given.message is not None:
            yield given.message if typed else given.message._replace(origin="injected")
        else:
            yield _spoken(record, *self._placed(record, text, offset), texts, typed=False)

    def _queue_operation(self, record: dict[str, Any], text: bytes, offset: int) -> None:
        """Keep the prompts of the queue. Each is heard when the model was given it.

        `dequeue` (a user record follows), `remove` or `popAll` closes every `enqueue`. `popAll`
        hands the prompts back to the editor. `remove` means that the model was given the prompt at
        once: newer releases say by whom with a queued_command attachment before or after it, older
        ones leave no other trace.
        """
        operation, texts = record.get("operation"), _texts(record.get("content"))
        ids = _ids(record, "commandUuid", "deliveryId")
        if operation == "enqueue":
            message = _spoken(record, *self._placed(record, text, offset), texts, typed=True)
            self._queue.append(
                _Queued(texts, ids, None if message.origin == "injected" else message)
            )
        elif operation == "dequeue":
            self._taken_next(texts, ids)
        elif operation == "popAll" and texts:
            _taken(self._queue, texts, ids, typed=True)
        elif operation == "popAll":
            self._queue.clear()
        elif operation == "remove" and (removed := self._taken_next(texts, ids)) is not None:
            self._given.append(removed)

    def _taken_next(self, texts: list[str], ids: frozenset[str]) -> _Queued | None:
        """Take the prompt out of the queue that a record names, or the next one where it names
        none.
        """
        found = _taken(self._queue, texts, ids, typed=False)
        return self._queue.popleft() if found is None and self._queue and not texts else found

    def _unexplained(self) -> Iterator[Message]:
        """Yield the prompts that the model was given and no attachment explained, as those of
        older releases.
        """
        while self._given:
            if (message := self._given.popleft().message) is not None:
                yield message

    def _assistant(self, record: dict[str, Any], uuid: str, place: Place) -> Message:
        body = fields(record.get("message"))
        content = body.get("content")
        texts: list[str] = [content] if isinstance(content, str) else []
        thinking: list[str] = []
        calls: list[ToolCall] = []
        for block in objects(content):
            kind = building.kind(block)
            if kind == "text" and isinstance(block.get("text"), str):
                texts.append(block["text"])
            elif kind == "thinking":
                # Mostly empty: newer clients keep the signature only.
                thinking.append(whole(block.get("thinking")))
            elif kind in _CALL_TYPES:
                given = {} if self.brief else bounds.arguments(fields(block.get("input")))
                calls.append(ToolCall(short(block.get("id")), short(block.get("name")), given))
                self._tools[calls[-1].id] = calls[-1].name
                if len(self._tools) > _MOST_CALLS:
                    del self._tools[next(iter(self._tools))]
        return building.by_model(
            uuid,
            place,
            "\n".join(texts),
            thinking=joined(thinking),
            calls=tuple(calls),
            synthetic=record.get("isApiErrorMessage") is True or body.get("model") == "<synthetic>",
            tokens=self._spent(body),
        )

    def _spent(self, body: dict[str, Any]) -> int:
        """Return the tokens that the model wrote, as far as no earlier record of the same answer
        said so.
        """
        tokens, answer = fields(body.get("usage")).get("output_tokens"), body.get("id")
        if type(tokens) is not int or not 0 <= tokens < 1 << 31:
            return 0
        said = self._answer[1] if answer is not None and answer == self._answer[0] else 0
        self._answer = (answer, max(said, tokens))
        return self._answer[1] - said

    def _user(self, record: dict[str, Any], uuid: str, place: Place) -> Message:
        content = fields(record.get("message")).get("content")
        answers = [block for block in objects(content) if block.get("type") == "tool_result"]
        texts, typed = _texts(content), not _by_client(record, place)
        if not answers:
            return _spoken(record, uuid, place, texts, typed=typed)
        results: list[ToolResult] = []
        reasons: list[str] = []
        origin: Origin = "tool"
        for block in answers:
            answer = "\n".join(_texts(block.get("content")))
            is_error = block.get("is_error") is True
            tool = self._tools.get(short(block.get("tool_use_id")), "")
            if is_error and is_refusal(answer, record.get("toolUseResult"), tool):
                origin = "refusal"
                reasons.append(refusal_reason(answer))
            shown = "" if self.brief else _answer(answer, record.get("toolUseResult"))
            results.append(ToolResult(short(block.get("tool_use_id")), shown, is_error))
        if texts and typed:
            # Older clients put an interruption, or words typed meanwhile, beside the results.
            beside, said = said_by(texts)
            if beside in ("human", "refusal"):
                origin = beside if origin == "tool" else origin
                reasons.append(said)
        return building.by_user(uuid, place, origin, joined(reasons), tuple(results))


def _by_client(record: dict[str, Any], place: Place) -> bool:
    """True when no person typed a record, by its flags or `origin`. A subagent is prompted by
    its parent.
    """
    if record.get("isMeta") is True or record.get("isVisibleInTranscriptOnly") is True:
        return True
    kind = _kind(record)
    return kind != "human" if kind else place.chain != ""


def _spoken(
    record: dict[str, Any], uuid: str, place: Place, texts: list[str], *, typed: bool
) -> Message:
    """Return a record of words. `typed` False means that the record itself says no person typed
    them.
    """
    origin: Origin
    if record.get("isCompactSummary") is True:
        origin, said = "summary", "\n".join(texts)
    elif not typed and not any(is_interrupt(text) for text in texts):
        origin, said = "injected", "\n".join(texts)
    else:
        origin, said = said_by(texts)
    return building.by_user(uuid, place, origin, said)


def _texts(content: Any) -> list[str]:
    return building.texts(content) if isinstance(content, str | list) else []


def _answer(answer: str, detail: Any) -> str:
    """Return a tool's answer with what only `toolUseResult` knows: stderr, an exit code, an
    interruption.
    """
    if not isinstance(detail, dict):
        return bounds.result_text(answer)
    if "file" in detail or "filePath" in detail:
        # The text of a file: its lines may speak of errors, and none has happened.
        return bounds.whole_excerpt(answer, bounds.RESULT_TEXT)
    stdout, stderr, code = detail.get("stdout"), detail.get("stderr"), detail.get("exitCode")
    if answer.startswith(_CUT_OUTPUT) and isinstance(stdout, str) and len(stdout) > len(answer):
        answer = stdout
    if isinstance(stderr, str) and (stderr := stderr.strip()) and stderr[:200] not in answer:
        answer += "\n[stderr] " + stderr
    if isinstance(code, int) and code and code.bit_length() < 64 and "xit code" not in answer:
        answer += f"\n[exit code {code:d}]"
    if detail.get("interrupted") is True:
        answer += "\n[interrupted]"
    return bounds.result_text(answer)


def _is_typed(attachment: dict[str, Any], record: dict[str, Any]) -> bool:
    """Return whether a queued prompt can be a person's, by what its attachment says of who sent
    it.
    """
    if (
        any(part.get("isMeta") is True for part in (attachment, record))
        or attachment.get("fromAnotherSession") is True
    ):
        return False
    kind = _kind(attachment) or _kind(record)
    return kind == "human" if kind else attachment.get("commandMode", "prompt") == "prompt"


def _ids(record: dict[str, Any], *keys: str) -> frozenset[str]:
    return frozenset(value for key in keys if isinstance(value := record.get(key), str) and value)


def _taken(
    queue: deque[_Queued], texts: list[str], ids: frozenset[str], *, typed: bool
) -> _Queued | None:
    """Take a prompt out of a queue: the one with the id of a record, or with its text.

    A client writes the words of others with a tag here and without it there; a person's are the
    same everywhere.
    """
    said = "\n".join(texts).strip()
    for queued in queue:
        if ids & queued.ids or (said and said == "\n".join(queued.texts).strip()):
            queue.remove(queued)
            return queued
    for queued in queue if said and not typed else ():
        if speakers.inner(said) == speakers.inner("\n".join(queued.texts)):
            queue.remove(queued)
            return queued
    return None


def _kind(record: dict[str, Any]) -> str:
    """`origin.kind` of newer records (human, task-notification, peer …); "" in older ones."""
    return building.kind(fields(record.get("origin")), "kind")


def is_interrupt(text: str) -> bool:
    """True for the client's note that a person interrupted the model."""
    return _INTERRUPT.match(text) is not None


def said_by(texts: list[str]) -> tuple[Origin, str]:
    """Return origin and text of an unflagged record's text blocks. What a person typed wins over
    what the client added beside it; without a person's words the whole text is kept, under the
    origin that it has.
    """
    interrupted = any(map(is_interrupt, texts))
    parts = (_INTERRUPT.sub("", text).strip() if is_interrupt(text) else text for text in texts)
    origin, said = speakers.said_by(filter(None, parts))
    if interrupted:
        return "refusal", said if origin == "human" else ""
    return ("summary" if origin == "human" and said.startswith(_SUMMARY) else origin), said


def is_refusal(result: str, detail: object, tool: str) -> bool:
    """Return whether a tool result says that a person refused the call or interrupted it. Any
    server may answer with the client's words, so what an MCP tool says is never one. Of a refusal
    the record's `detail` (`toolUseResult`) is a text, the client's own or, with a reason, "Error: "
    and the words, which a tool that failed has as well: these count for a tool that is known.
    Records from before that field have none.
    """
    is_told = detail is None or (
        isinstance(detail, str) and (tool != "" or not detail.startswith("Error: "))
    )
    return is_told and not tool.startswith("mcp__") and _REFUSED.match(result) is not None


def refusal_reason(result: str) -> str:
    """Return the person's reason in a refused tool result; "" where the person gave none."""
    match = _REASON.search(result)
    if match is None:
        return ""
    reason = (
        result[match.end() :]
        .partition(_ADVICE)[0]
        .strip()
        .removesuffix("</tool_use_error>")
        .strip()
    )
    return "" if reason.startswith(_CLARIFIES) else reason
