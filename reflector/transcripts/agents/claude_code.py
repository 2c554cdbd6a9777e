"""Reads the transcripts of Claude Code, from 1.0.98 to 2.1.2xx. No release documents their format.

Invariant: only a record's own top-level `type` makes it a message, each record (by `uuid`) once per
file. `progress` records embed whole messages of subagents, lines with one `message.id` each contain
another block, and metadata repeats words of other records. No word may count twice. Only words that
a user typed are "human" or "refusal". The client writes reminders, hook output, command echoes,
notifications and summaries under the type `user` too, usually without a flag.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from reflector.text import bounds
from reflector.text.lazy import lazy_pattern
from reflector.transcripts import speakers
from reflector.transcripts.building import (
    Conversation,
    Kept,
    Load,
    Loads,
    Place,
    bounded_path,
    by_model,
    by_user,
    fields,
    join_texts,
    object_in,
    objects,
    plain_text,
    short_in,
    short_text,
    text_in,
    texts_of,
)
from reflector.transcripts.message import Message, Origin, Tally, ToolCall, ToolResult
from reflector.transcripts.records import JsonObject, count_type, record_uuid
from reflector.transcripts.speakers import Speech

#: Types without a message; the api-requests repeat the conversation.
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

#: The beginning of the answer for a long output. The answer has only the first 2 kB; the complete
#: output with its end is in `toolUseResult`.
_CUT_OUTPUT = "<persisted-output>"
_CALL_TYPES = frozenset(("tool_use", "server_tool_use", "mcp_tool_use"))
#: The tool that asks the user, and the permission modes in which the user answers it.
_QUESTION_TOOL = "AskUserQuestion"
_MODES_WITH_A_PERSON = frozenset(("default", "acceptEdits", "plan"))
#: Attachments that repeat a hook's output as the model gets it, and the hook events that print the
#: playbook.
_ECHOES = frozenset(("hook_success", "hook_additional_context"))
_STARTS = frozenset(("SessionStart", "SubagentStart"))
#: The maximum number of calls whose tool is remembered until their results come.
_MAX_CALLS = 256

_SUMMARY = "This session is being continued from a previous conversation"

_INTERRUPT = lazy_pattern(r"\[Request interrupted by user(?: for tool use)?\]|\[Skipped by user\]")

#: Openings of a tool result that reports a refusal by the user, not a tool's answer.
_REFUSED = lazy_pattern(
    r"(?:Error: )?(?:<tool_use_error>)?"
    r"(?:The user doesn't want to (?:proceed with this tool use|take this action right now)"
    r"|The agent proposed a plan that was rejected by the user"
    r"|User rejected (?:tool use|the plan|update to )"
    r"|User declined to answer questions"
    r"|\[Request interrupted by user)"
)
_REASON = lazy_pattern(r"the user said:|The user provided the following reason for the rejection:")
#: The client's text instead of a reason, if the user wants to discuss the questions first.
_CLARIFIES = "The user wants to clarify these questions."
_ADVICE = "\n\nNote: The user's next message may contain a correction"


class _Queued(NamedTuple):
    """A prompt of the queue: its texts, its ids, and its message. The message is None if its own
    words show that the user did not type it.
    """

    texts: list[str]
    ids: frozenset[str]
    message: Message | None


class _Edit(NamedTuple):
    """The file that a call edited: its former text, None if unknown, and whether it is new."""

    former: str | None = None
    is_new: bool = False

    @staticmethod
    def of(detail: Any) -> _Edit:
        """Return the edit that a record's `toolUseResult` reports."""
        edit = fields(detail)
        former = edit.get("originalFile")
        is_new = edit.get("type") == "create"
        if not (is_new or isinstance(former, str)):
            former = _without_patch(edit.get("content"), objects(edit.get("structuredPatch")))
        return _Edit(former if isinstance(former, str) else None, is_new)


def _without_patch(content: Any, hunks: Sequence[Mapping[str, Any]]) -> str | None:
    """Return a file before a patch; None if that cannot be determined.

    Claude Code shows a leading tab in a patch as spaces, so a file with tabs is not determined.
    """
    if not hunks or not isinstance(content, str) or "\n\t" in f"\n{content}":
        return None
    lines = content.split("\n")
    for hunk in reversed(hunks):
        shown = hunk.get("lines")
        start = hunk.get("newStart")
        if not isinstance(shown, list) or not isinstance(start, int):
            return None
        # Other lines are notes, such as `\\ No newline at end of file`.
        if any(plain_text(line)[:1] not in {" ", "+", "-"} for line in shown):
            return None
        added, removed = ([line[1:] for line in shown if line[0] in {" ", sign}] for sign in "+-")
        first = max(start - 1, 0)
        if lines[first : first + len(added)] != added:
            return None
        lines[first : first + len(added)] = removed
    return "\n".join(lines)


class _Answer(NamedTuple):
    """An answer of the model: its id, and the tokens of the records read so far."""

    id: Any
    tokens: int


#: Claude Code loads AGENTS.md only in a project without any of these.
_BEFORE_AGENTS = ("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md")


class ClaudeCode(Conversation):
    """The records of Claude Code, as docs/agents.md describes them. An object of it remembers the
    chains and queued prompts of earlier records.

    reads     JSON Lines of 1.0.98 and later; subagents have files of their own
    words     `user` records without the tags and notes that the client writes
    refusal   `The user doesn't want to proceed …` and similar results with the given reason,
              `[Request interrupted by user]`
    failure   `is_error`
    ignored   `progress`, `system`, `summary` and other metadata
    identity  the record's `uuid`
    """

    agent = "claude-code"
    name = "Claude Code"
    option = "claude"
    kept = (Kept("CLAUDE_CONFIG_DIR", ".claude", "projects"),)
    loads = Loads(
        version="2.1.332",
        project=(
            Load("CLAUDE.md"),
            Load(".claude/CLAUDE.md"),
            Load("AGENTS.md", _BEFORE_AGENTS),
            Load(".claude/AGENTS.md", _BEFORE_AGENTS),
            Load(".claude/rules/**/*.md"),
            Load("CLAUDE.local.md"),
        ),
        own=Kept("CLAUDE_CONFIG_DIR", ".claude", ""),
        user=(Load("CLAUDE.md"), Load("rules/**/*.md")),
        imports=5,
        above=True,
        memory=(
            Load("projects/{slug}/memory/MEMORY.md", lines=200),
            Load("projects/{slug}/memory/**/*.md"),
        ),
    )

    @staticmethod
    def recognises(record: JsonObject) -> bool:
        kind = text_in(record, "type")
        if kind in ("user", "assistant"):
            # Other agents write the same envelope around another form of message.
            message = record.get("message")
            if isinstance(message, dict):
                return "content" in message or not message
            return "message" not in record and "uuid" in record and "sessionId" in record
        if kind in ("system", "attachment", "progress"):
            return "parentUuid" in record or "sessionId" in record
        if kind == "summary":
            return "leafUuid" in record
        return kind in _OWN_TYPES or (kind == "mode" and "sessionId" in record)

    def __init__(self) -> None:
        super().__init__()
        self._first_agent: str | None = None
        self._described: tuple[Any, ...] = ()
        self._roots: dict[str, str] = {}
        #: The tools of the newest calls by the call's id, and the calls that an attachment, such as
        #: a hook's, names.
        self._tools: dict[str, str] = {}
        self._hooked: set[str] = set()
        #: The permission mode of the newest prompt; "" until a record names it.
        self._mode = ""
        self._queue: deque[_Queued] = deque(maxlen=256)
        #: Prompts that the model got. They are kept until it answers or a record names their
        #: speaker.
        self._delivered: deque[_Queued] = deque(maxlen=32)
        self._last_answer = _Answer(None, 0)

    def messages(
        self, record: JsonObject, text: bytes, offset: int, tally: Tally
    ) -> Iterator[Message]:
        """Yield the record's own message, if it has one, and the queued prompts whose delivery it
        shows.
        """
        kind = text_in(record, "type")
        if kind in ("assistant", "user"):
            self._describe(record)
            uuid, place = self._placed(record, text, offset)
            read = self._assistant if kind == "assistant" else self._user
            message = read(record, uuid, place)
            # Tool results and injected texts may be between a prompt and its attachment.
            if message.origin not in ("tool", "injected"):
                yield from self._unexplained()
            yield message
        elif kind == "attachment":
            yield from self._attachment(record, text, offset)
        elif kind == "queue-operation":
            self._queue_operation(record, text, offset)
        elif kind not in _METADATA:
            count_type(tally, record.get("type"))

    def _describe(self, record: JsonObject) -> None:
        """Keep the newest session and version. Keep the agent if the first record names it, too."""
        described = (record.get("sessionId"), record.get("version"), record.get("agentId"))
        if described == self._described:
            return  # same as in the previous record
        self._described = described
        self.session_id = bounded_path(record.get("sessionId")) or self.session_id
        self.version = bounded_path(record.get("version")) or self.version
        agent = bounded_path(record.get("agentId"))
        if self._first_agent is None:
            self._first_agent = agent if record.get("isSidechain") is True else ""
        self.agent_id = agent if agent == self._first_agent else ""

    def leftover(self) -> list[Message]:
        """Return the prompts that are still undelivered at the end of the file. No record names
        their speaker.
        """
        waiting = [queued.message for queued in (*self._delivered, *self._queue)]
        return [message._replace(origin="unknown") for message in waiting if message is not None]

    @property
    def is_at_rest(self) -> bool:
        """Whether no prompt waits, no text of our hook waits for an answer, and no sidechain is
        known from earlier records only.
        """
        return not any((self._queue, self._delivered, self._roots, self.heard))

    def _placed(self, record: JsonObject, text: bytes, offset: int) -> tuple[str, Place]:
        """Return the id and the place of a record's message."""
        uuid = record_uuid(record, text)
        return uuid, Place(self._chain(record, uuid), short_in(record, "timestamp"), offset)

    def _chain(self, record: JsonObject, uuid: str) -> str:
        """Return the id of the sidechain.

        Version 1 wrote sidechains inline without `agentId`, so the uuid of the root names them.
        """
        if record.get("isSidechain") is not True:
            return ""
        agent = text_in(record, "agentId")
        if agent:
            return short_text(agent)
        root = self._roots.get(text_in(record, "parentUuid"), uuid)
        self._roots[uuid] = root
        return root

    def _attachment(self, record: JsonObject, text: bytes, offset: int) -> Iterator[Message]:
        """Yield the prompt that arrived while the model worked. Only its attachment names its
        origin. Other attachments repeat the output of a hook.
        """
        attachment = object_in(record, "attachment")
        kind = text_in(attachment, "type")
        self._hooked.add(short_in(attachment, "toolUseID"))
        if kind in _ECHOES and text_in(attachment, "hookEvent") in _STARTS:
            self.hear(_texts(attachment.get("content")))
        if kind != "queued_command":
            return
        texts = _texts(attachment.get("prompt"))
        is_typed = _is_typed(attachment, record)
        ids = _ids(attachment, "source_uuid", "delivery_id")
        delivered = _take(self._delivered, texts, ids, is_typed=is_typed)
        if delivered is None:
            _take(self._queue, texts, ids, is_typed=is_typed)  # it no longer waits
            yield _worded(record, *self._placed(record, text, offset), texts, is_typed=is_typed)
        elif delivered.message is None:  # the client itself wrote it
            yield _worded(record, *self._placed(record, text, offset), texts, is_typed=False)
        else:
            message = delivered.message
            yield message if is_typed else message._replace(origin="injected")

    def _queue_operation(self, record: JsonObject, text: bytes, offset: int) -> None:
        """Keep the prompts of the queue. Each becomes a message when the model gets it.

        Every `enqueue` is closed by one of these:

        dequeue  a user record follows
        popAll   the prompts return to the editor
        remove   the model got the prompt at once; newer releases name the speaker in a
                 queued_command attachment before or after it, older ones leave no other trace
        """
        operation = record.get("operation")
        texts = _texts(record.get("content"))
        ids = _ids(record, "commandUuid", "deliveryId")
        if operation == "enqueue":
            message = _worded(record, *self._placed(record, text, offset), texts, is_typed=True)
            is_clients = message.origin == "injected"
            self._queue.append(_Queued(texts, ids, None if is_clients else message))
        elif operation == "dequeue":
            self._take_next(texts, ids)
        elif operation == "remove":
            removed = self._take_next(texts, ids)
            if removed is not None:
                self._delivered.append(removed)
        elif operation == "popAll":
            if texts:
                _take(self._queue, texts, ids, is_typed=True)
            else:
                self._queue.clear()

    def _take_next(self, texts: list[str], ids: frozenset[str]) -> _Queued | None:
        """Remove and return the queued prompt that a record names, or else the next one."""
        queued = _take(self._queue, texts, ids, is_typed=False)
        if queued is None and self._queue and not texts:
            return self._queue.popleft()
        return queued

    def _unexplained(self) -> Iterator[Message]:
        """Yield the prompts that the model got without an attachment, as in older releases."""
        while self._delivered:
            message = self._delivered.popleft().message
            if message is not None:
                yield message

    def _assistant(self, record: JsonObject, uuid: str, place: Place) -> Message:
        body = object_in(record, "message")
        self.model = short_in(body, "model") or self.model
        content = body.get("content")
        texts: list[str] = [content] if isinstance(content, str) else []
        thinking: list[str] = []
        calls: list[ToolCall] = []
        for block in objects(content):
            kind = text_in(block, "type")
            if kind == "text" and isinstance(block.get("text"), str):
                texts.append(block["text"])
            elif kind == "thinking":
                # Mostly empty, because newer clients only keep the signature.
                thinking.append(text_in(block, "thinking"))
            elif kind in _CALL_TYPES:
                calls.append(self._call(block))
        return by_model(
            uuid,
            place,
            "\n".join(texts),
            thinking=join_texts(thinking),
            calls=tuple(calls),
            synthetic=record.get("isApiErrorMessage") is True or body.get("model") == "<synthetic>",
            tokens=self._added_tokens(body),
            branch=short_in(record, "gitBranch"),
            folder=bounded_path(record.get("cwd")),
        )

    def _call(self, block: JsonObject) -> ToolCall:
        """Return a tool call, and remember its tool for its result."""
        whole = object_in(block, "input")
        arguments = {} if self.brief else bounds.arguments(whole)
        name = short_in(block, "name")
        call = ToolCall(short_in(block, "id"), name, arguments, whole)
        self._tools[call.id] = call.name
        if len(self._tools) > _MAX_CALLS:
            del self._tools[next(iter(self._tools))]
        return call

    def _added_tokens(self, body: JsonObject) -> int:
        """Return the tokens that the model wrote, without those of earlier records of the same
        answer.
        """
        tokens = object_in(body, "usage").get("output_tokens")
        answer_id = body.get("id")
        if type(tokens) is not int or not 0 <= tokens < 1 << 31:
            return 0
        is_same_answer = answer_id is not None and answer_id == self._last_answer.id
        earlier_tokens = self._last_answer.tokens if is_same_answer else 0
        self._last_answer = _Answer(answer_id, max(earlier_tokens, tokens))
        return self._last_answer.tokens - earlier_tokens

    def _user(self, record: JsonObject, uuid: str, place: Place) -> Message:
        """Return the message of a record under the user's name: words, or the results of tools. A
        result may be the user's refusal.
        """
        content = object_in(record, "message").get("content")
        self._mode = short_in(record, "permissionMode") or self._mode
        answers = [block for block in objects(content) if block.get("type") == "tool_result"]
        texts = _texts(content)
        is_typed = not _is_by_client(record, place)
        if not answers:
            return _worded(record, uuid, place, texts, is_typed=is_typed)
        detail = record.get("toolUseResult")
        results: list[ToolResult] = []
        reasons: list[str] = []
        origin: Origin = "tool"
        for block in answers:
            answer = "\n".join(_texts(block.get("content")))
            call_id = short_in(block, "tool_use_id")
            is_error = block.get("is_error") is True
            if is_error and _is_refusal(answer, detail, self._tools.get(call_id, "")):
                origin = "refusal"
                reasons.append(_refusal_reason(answer))
            is_needed = is_error or not self.brief
            text = _answer_text(answer, detail) if is_needed else ""
            choice = self._choice(block, detail, place)
            edit = _Edit.of(detail) if len(answers) == 1 else _Edit()
            results.append(ToolResult(call_id, text, is_error, choice, *edit))
        if texts and is_typed:
            # Older clients put an interruption, or words typed during it, into the same record.
            speech = _speech_of(texts)
            if speech.origin in ("human", "refusal"):
                origin = speech.origin if origin == "tool" else origin
                reasons.append(speech.words)
        return by_user(uuid, place, origin, join_texts(reasons), tuple(results))

    def _choice(self, block: JsonObject, detail: Any, place: Place) -> str:
        """Return the user's choice or answer in the client's own question tool. Return "" after an
        error, and if a hook, a mode without questions or a subagent may have answered.
        """
        call_id = short_in(block, "tool_use_id")
        is_own_tool = self._tools.get(call_id) == _QUESTION_TOOL and call_id not in self._hooked
        is_asked = not place.chain and self._mode in _MODES_WITH_A_PERSON
        if block.get("is_error") is True or not (is_own_tool and is_asked):
            return ""
        choices = object_in(fields(detail), "answers").values()
        return bounds.head_and_tail(join_texts(map(plain_text, choices)), bounds.MODEL_TEXT)


def _is_by_client(record: JsonObject, place: Place) -> bool:
    """Return whether the flags or `origin` of a record show that the user did not type it.

    The prompt of a subagent comes from its parent.
    """
    if record.get("isMeta") is True or record.get("isVisibleInTranscriptOnly") is True:
        return True
    speaker = _speaker_kind(record)
    return speaker != "human" if speaker else place.chain != ""


def _worded(
    record: JsonObject, uuid: str, place: Place, texts: list[str], *, is_typed: bool
) -> Message:
    """Return the message of a record of words.

    is_typed  False if the record itself shows that the user did not type the words; the note of an
              interruption is the user's in any case
    """
    if record.get("isCompactSummary") is True:
        speech = Speech("summary", "\n".join(texts))
    elif is_typed or any(map(_is_interrupt, texts)):
        speech = _speech_of(texts)
    else:
        speech = Speech("injected", "\n".join(texts))
    return by_user(uuid, place, *speech)


def _texts(content: Any) -> list[str]:
    return texts_of(content) if isinstance(content, str | list) else []


def _answer_text(answer: str, detail: Any) -> str:
    """Return a tool's answer with the facts that only `toolUseResult` contains: stderr, an exit
    code, an interruption.
    """
    if not isinstance(detail, dict):
        return bounds.result_text(answer)
    if "file" in detail or "filePath" in detail:
        # Lines of a file that look like errors are not errors of the tool.
        return bounds.whole_excerpt(answer, bounds.RESULT_TEXT)
    stdout = text_in(detail, "stdout")
    stderr = text_in(detail, "stderr").strip()
    code = detail.get("exitCode")
    if answer.startswith(_CUT_OUTPUT) and len(stdout) > len(answer):
        answer = stdout
    if stderr and stderr[:200] not in answer:
        answer += "\n[stderr] " + stderr
    is_code = isinstance(code, int) and 0 < code.bit_length() < 64
    if is_code and "xit code" not in answer:
        answer += f"\n[exit code {code:d}]"
    if detail.get("interrupted") is True:
        answer += "\n[interrupted]"
    return bounds.result_text(answer)


def _is_typed(attachment: JsonObject, record: JsonObject) -> bool:
    """Return whether the user can have typed a queued prompt, by the sender in its attachment."""
    if attachment.get("isMeta") is True or record.get("isMeta") is True:
        return False
    if attachment.get("fromAnotherSession") is True:
        return False
    speaker = _speaker_kind(attachment) or _speaker_kind(record)
    if speaker:
        return speaker == "human"
    return bool(attachment.get("commandMode", "prompt") == "prompt")


def _ids(record: JsonObject, *keys: str) -> frozenset[str]:
    return frozenset(text_in(record, key) for key in keys) - {""}


def _take(
    queue: deque[_Queued], texts: list[str], ids: frozenset[str], *, is_typed: bool
) -> _Queued | None:
    """Remove the prompt with the id or the text of a record from a queue, and return it; None if
    the queue does not have it.

    A client writes foreign words with a tag in some records and without it in others. The user's
    words are the same everywhere.
    """
    text = "\n".join(texts).strip()
    for queued in queue:
        has_text = text != "" and text == "\n".join(queued.texts).strip()
        if has_text or ids & queued.ids:
            queue.remove(queued)
            return queued
    if is_typed or not text:
        return None
    for queued in queue:
        if speakers.inner(text) == speakers.inner("\n".join(queued.texts)):
            queue.remove(queued)
            return queued
    return None


def _speaker_kind(record: JsonObject) -> str:
    """Return `origin.kind` of newer records (human, task-notification, peer …), else ""."""
    return text_in(object_in(record, "origin"), "kind")


def _is_interrupt(text: str) -> bool:
    """Return whether a text is the client's note that the user interrupted the model."""
    return _INTERRUPT.match(text) is not None


def _speech_of(texts: list[str]) -> Speech:
    """Return the speaker and the words of a record's text blocks, if no flag names the speaker."""
    is_interrupted = any(map(_is_interrupt, texts))
    parts = (_INTERRUPT.sub("", text).strip() if _is_interrupt(text) else text for text in texts)
    speech = speakers.speaker_of(filter(None, parts))
    is_human = speech.origin == "human"
    if is_interrupted:
        return Speech("refusal", speech.words if is_human else "")
    if is_human and speech.words.startswith(_SUMMARY):
        return Speech("summary", speech.words)
    return speech


def _is_refusal(result: str, detail: object, tool: str) -> bool:
    """Return whether a tool result reports that the user refused the call or interrupted it.

    Any server may answer with the client's words, so the result of an MCP tool is never a refusal.
    The `detail` of a refusal (`toolUseResult`) is a text: the client's own or, with a reason,
    "Error: " and the words. A failed tool has a text with "Error: ", too, so such a text only
    counts if the tool is known. Records of older clients do not have the field.
    """
    if tool.startswith("mcp__") or _REFUSED.match(result) is None:
        return False
    if isinstance(detail, str):
        return tool != "" or not detail.startswith("Error: ")
    return detail is None


def _refusal_reason(result: str) -> str:
    """Return the user's reason in a refused tool result; "" without a reason."""
    match = _REASON.search(result)
    if match is None:
        return ""
    reason, _, _ = result[match.end() :].partition(_ADVICE)
    reason = reason.strip().removesuffix("</tool_use_error>").strip()
    return "" if reason.startswith(_CLARIFIES) else reason
