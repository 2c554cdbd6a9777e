"""Runs the user's own agent as the judge: without a screen, without tools, in an empty folder of
ours.

Invariant: no session is sent before this version of the client has shown to a stand-in on loopback
that it has no tool and sends only the question. The client is started with the variables of the
consent, never with those of the calling process. When it ends, everything that it started ends too.
One judge of a user runs at a time. While it runs, a file of the user's has the name that
`REFLECTOR_JUDGING` contains, so that our hooks recognise its session.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from types import MappingProxyType
from typing import Literal, NamedTuple

from reflector import files
from reflector.config import CONSENT
from reflector.judges import consent
from reflector.judges.agent_clients import JUDGES, JudgeClient, Ours, Said
from reflector.judges.excerpt import estimate_tokens
from reflector.judges.model import SHORTER, Reply
from reflector.judges.protocol import BackendError
from reflector.prices import Usage
from reflector.text.lazy import lazy_pattern

#: Most bytes of an answer; with a client's frame around it, the output may be longer.
MOST_ANSWER = 64 << 10
_MOST_OUT = 4 * MOST_ANSWER
#: Most judges of one user at a time.
_MOST = 3
#: Set while the askers of this process are stopped, because a thread is not interrupted.
STOPPED = threading.Event()
#: Most bytes of output of a client's own command that runs first.
_MOST_FIRST = 16 << 20
_CUE = "Answer with an empty JSON object."
#: Seconds for a client to show its request; a quarter of them for its version.
_BRIEF = 60.0
#: Seconds of rest of a client that hit its limit twice in a row and does not report its end.
_REST = 3_600.0
#: The longest limit that is believed, in seconds.
_LONGEST_LIMIT = 8 * 86_400
_LIMITED = lazy_pattern(
    r"rate.?limit|(?:usage|session|weekly|hit your) limit|quota|too many requests|\(?\b429\b",
    re.I,
)
_LOGGED_OUT = lazy_pattern(
    r"log(?:ged)? ?in\b|\bauth\b|authenticat|authoriz|\b40[13]\b|api.?key|credentials", re.I
)
_TOO_LONG = lazy_pattern(
    r"input_too_large|prompt is too long|prompt budget|context (?:window|limit|length)",
    re.I,
)
_NO_MODEL = lazy_pattern(
    r"\b404\b|(?:unknown|invalid|no such) model|model.{0,80}(?:not found|does not exist)",
    re.I,
)
_AWAY = lazy_pattern(
    r"\b5[0-9]{2}\b|overloaded|time(?:d )?.?out|unavailable|connect|network|socket"
    r"|fetch failed|\bE[A-Z]{4,}\b|stream",
    re.I,
)
_AGAIN_IN = lazy_pattern(r"(\d+)\s*(day|hour|minute|second|[dhms]\b)", re.I)
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


#: Why reflector ended a process: its request was seen, it printed too much, it took too long, you
#: withdrew the permission, or it began a second turn. "" if it ended by itself.
Why = Literal["", "seen", "talkative", "time", "forbidden", "turns"]


class Ended(NamedTuple):
    """A process that ended: its exit code and output, and the reason if reflector ended it."""

    code: int
    out: bytes
    err: bytes
    why: Why = ""


@dataclass(frozen=True, slots=True)
class AgentClient:
    """Asks the agent that wrote a session, or else the agent that the user named.

    writer    the name under which the session's agent is recorded, "" without a session
    named     the client of the setting `judge_client`, "" for the session's own
    model     asked instead of the client's cheapest, if a client is named
    deadline  longest wait for an answer in seconds
    """

    named: str = ""
    model: str = ""
    deadline: float = 110.0
    writer: str = ""

    def of(self, writer: str) -> AgentClient:
        """Return the client for a session that this agent wrote."""
        return replace(self, writer=writer)

    def name(self) -> str:
        """Return the agent to ask, as `--agent` has it, or "" for none."""
        return consent.client_name(self.named, self.writer)

    @property
    def worst(self) -> int:
        """The most requests that one question may become."""
        return JUDGES[name].worst if (name := self.name()) else 1

    @property
    def overhead(self) -> int:
        """The tokens that the client adds to a question."""
        return JUDGES[name].largest // 4 if (name := self.name()) else 0

    async def send(self, texts: Sequence[str]) -> Reply:
        """Ask one question in a process of its own.

        Raises: BackendError and nothing else.
        """
        client, agreed = self._agreed_client()
        try:
            async with _turn(self.deadline, client.at_once):
                state = consent.client_state(client.name)
                try:
                    output = await self._ask(client, agreed, state, "".join(texts))
                    state.limits = 0
                except Limited as error:
                    state.limits += 1
                    if state.limits > 1:  # no question until it is over
                        error.retry_after = error.retry_after or _REST
                        state.until = time.time() + error.retry_after
                    raise
                finally:
                    if client.name in consent.askable_clients():
                        consent.keep_state(client.name, state)
        except OSError as error:
            raise _uncounted_failure(
                f"reflector cannot start {client.title}: {files.error_words(error)}", "access"
            ) from None
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise _uncounted_failure(
                f"reflector cannot read the output of {client.title}: {error}", "answer"
            ) from error
        stop = output.stop or "end_turn"
        return Reply(output.text, output.model, stop, output.usage, cost=output.cost)

    def admit(self) -> None:
        """Raise BackendError if no agent can be asked now, before anything is spent."""
        self._agreed_client()

    def _agreed_client(self) -> tuple[JudgeClient, consent.Agreed]:
        """Return the client to ask, and your consent to it.

        Raises: BackendError if it may not be asked now.
        """
        agreed = consent.askable_clients()
        if not agreed:
            raise _uncounted_failure(
                f"you have not allowed an agent to judge; run: {CONSENT}", "access"
            )
        name = self.name()
        whom = f"set judge_client to one of {', '.join(agreed)}"
        if name not in JUDGES:
            who = name or self.writer or "the agent of this session"
            raise _uncounted_failure(f"{who} is not an agent that can judge; {whom}", "access")
        if name not in agreed:
            raise _uncounted_failure(
                f"{JUDGES[name].title} may not judge, because you have not allowed this agent to "
                f"judge; run {CONSENT}, or {whom}",
                "access",
            )
        until = consent.client_state(name).until
        rest = until - time.time()
        if rest > 0:
            title = JUDGES[name].title
            limited = f"{title} reached its usage limit; reflector asks {title} again"
            limited += f" after {time.strftime('%Y-%m-%d %H:%M', time.localtime(until))}"
            raise BackendError(limited, stage="access", attempts=0, retry_after=rest)
        return JUDGES[name], agreed[name]

    async def _ask(
        self, client: JudgeClient, agreed: consent.Agreed, state: consent.State, text: str
    ) -> Said:
        """Ask a client in a process of its own, and return the output.

        Raises: BackendError, with the request and the tokens that it may have taken.
        """
        model = self.model if self.named and self.model else client.model
        with _workplace(agreed.path, agreed.environ, model) as ours:
            ours = await _ready(client, state, ours)
            start = _Start(
                ours,
                client.command(ours),
                client.prepare(ours),
                text,
                self.deadline,
                _MOST_OUT + 8 * client.echoes * len(text.encode()),
                client.turn.encode(),
                client=client.name,
            )
            ended = await _run(start)
            output = client.read(ended.out, ended.err, ours)
            if failure := _failure(client, ended, output, self.deadline):
                # The model may have been asked. So a request that failed or was killed is counted
                # with the tokens that it may have taken.
                is_refused = failure.stage == "access" and not ended.why
                is_free = is_refused and not output.usage.total
                usage = output.usage if output.usage.total else Usage(estimate_tokens(text))
                failure.usage = Usage() if is_free else usage
                failure.attempts = 1
                raise failure
            return output


async def check_client(name: str, agreed: consent.Agreed) -> str:
    """Return the version of a client that showed that it can judge.

    Raises: BackendError if it cannot, OSError.
    """
    client = JUDGES[name]
    state = consent.State()
    async with _turn(_BRIEF):
        with _workplace(agreed.path, agreed.environ, client.model) as ours:
            await _ready(client, state, ours)
        consent.keep_state(name, state)
    return state.proved.partition(" ")[0]


async def _ready(client: JudgeClient, state: consent.State, ours: Ours) -> Ours:
    """Return the facts for a start, after this version of the client has shown that it is locked
    down.

    Raises: BackendError.
    """
    version = await _printed_version(client, ours)
    if fault := client.version_fault(version):
        raise _uncounted_failure(fault, "access")
    if client.first:
        first = await _run(_Start(ours, client.first, most=_MOST_FIRST))
        ours = ours._replace(told=first.out)
    settings = (*client.variables.items(), *client.files.items())
    line = json.dumps([ours.path, ours.model, client.words, *settings])
    proof = f"{version} {sha256(line.encode()).hexdigest()[:16]}"
    if state.proved != proof:
        await _show_request(client, ours)
        state.proved = proof
    return ours


def _failure(
    client: JudgeClient, ended: Ended, output: Said, seconds: float
) -> BackendError | None:
    """Return why a process gave no usable answer, with the way out; None if it gave one."""
    title = client.title
    if ended.why == "time":
        way_out = f"try {title} in a terminal, or raise deadline_seconds"
        late = f"{title} did not answer within {seconds:.0f} s and was stopped; {way_out}"
        return _uncounted_failure(late, "transport")
    if ended.why == "forbidden":
        why = "you withdrew the permission to judge"
        return _uncounted_failure(f"reflector stopped {title}, because {why}", "access")
    if output.forbidden:
        return _uncounted_failure(
            f"reflector ignored the answer of {title}, because {title} got more rights or input "
            f"than a judge may get: {output.forbidden}",
            "access",
        )
    if ended.why == "turns":
        return _uncounted_failure(
            f"{title} tried to use a tool, but judges must not use tools", "answer"
        )
    size = len(output.text.encode("utf-8", "replace"))
    if ended.why or size > MOST_ANSWER:
        most = f"{MOST_ANSWER >> 10} KB, which is too long for an answer"
        return _uncounted_failure(f"{title} printed more than {most}", "answer")
    if output.stop == "refusal":
        return None  # it is the model's answer, and is read as one
    if ended.code or output.error:
        return _reported_failure(client, ended, output.error)
    if not output.text:
        return _uncounted_failure(f"{title} ended without an answer ({output.stop})", "answer")
    return None


def _reported_failure(client: JudgeClient, ended: Ended, error: str) -> BackendError:
    """Return the failure that a client reports in its own words."""
    title = client.title
    words = f"{error} {ended.err.decode('utf-8', 'replace')[-2_000:]}".strip()
    reason = error or words[-300:]
    failed = f"{title} failed (exit code {ended.code}): {reason or 'it printed nothing'}"
    if _TOO_LONG.search(words):
        return BackendError(failed + SHORTER, stage="request")
    if _LIMITED.search(words):
        limited = f"{title} reached its usage limit ({reason}); reflector asks {title} again later"
        return Limited(limited, stage="access", retry_after=_seconds_until(words))
    if _LOGGED_OUT.search(words):
        return _uncounted_failure(f"{title} is logged out: {client.names[2]} ({reason})", "access")
    if _NO_MODEL.search(words):
        return _uncounted_failure(
            f"{failed}; set `judge_client` to an agent, and `model` to a model of this agent",
            "access",
        )
    # If the API is not known to be away, the session may be the cause: it uses up an attempt.
    return _uncounted_failure(failed, "transport" if _AWAY.search(words) else "answer")


class Limited(BackendError):
    """A client's limit is reached; `retry_after` if the client reports for how long."""


def _uncounted_failure(message: str, stage: str) -> BackendError:
    """Return a failure without a request. If the client was asked, `_ask` counts the request."""
    return BackendError(message, stage=stage, attempts=0)


def _seconds_until(words: str) -> float:
    """Return how long a limit lasts, from the client's text: a time, or a span; 0.0 if it has
    neither.
    """
    if moment := re.search(r"\b(1[6-9]\d{8}|[2-9]\d{9})\b", words):
        return min(max(60.0, int(moment[1]) - time.time()), _LONGEST_LIMIT)
    spans = _AGAIN_IN.findall(words.rpartition(" in ")[2])
    seconds = sum(int(number) * _SECONDS[unit[0].lower()] for number, unit in spans)
    return float(min(seconds, _LONGEST_LIMIT))


async def installed_version(name: str, agreed: consent.Agreed) -> str:
    """Return the version of an installed client, without a change in reflector's own folders.

    Raises: BackendError if the client is not there or prints no version; OSError.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "empty").mkdir()
        ours = Ours(Path(folder), agreed.environ, "", path=agreed.path, environ=agreed.environ)
        return await _printed_version(JUDGES[name], ours)


def client_fault(name: str, agreed: consent.Agreed) -> str:
    """Return why the version of an installed client may not judge; "" if it may, or if it is
    unknown.
    """
    try:
        return JUDGES[name].version_fault(asyncio.run(installed_version(name, agreed)))
    except (BackendError, OSError):
        return ""


async def _printed_version(client: JudgeClient, ours: Ours) -> str:
    again = f"run: {CONSENT}"
    if not Path(ours.path).is_file():
        gone = (
            f"{client.title} is no longer at {ours.path}; install {client.title} again, and {again}"
        )
        raise _uncounted_failure(gone, "access")
    ended = await _run(_Start(ours, ["--version"], seconds=_BRIEF / 4))
    version = re.search(rb"\d+(?:\.\d+)+", ended.out)
    if ended.code or ended.why or version is None:
        why = ended.err.decode("utf-8", "replace").strip()[-200:] or ended.code
        raise _uncounted_failure(
            f"`{ours.path} --version` fails ({why}); install {client.title} again, and {again}",
            "access",
        )
    return version[0].decode()


async def _show_request(client: JudgeClient, ours: Ours) -> None:
    """Let a client send its request about an empty question to a stand-in.

    Raises: BackendError for a tool, or for more than the question.
    """
    async with _stand_in() as (url, request):
        with _workplace(ours.path, ours.person, ours.model, client.logins) as place:
            place = place._replace(url=url, told=ours.told)
            local = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
            variables = local | client.prepare(place)
            words = client.command(place)
            ended = await _run(_Start(place, words, variables, _CUE, shown=request))
            forbidden = client.read(ended.out, ended.err, place).forbidden
    if b"Skipping" in ended.err.replace(b"Skipping metrics", b""):  # metrics of its own start
        forbidden = forbidden or "the agent skipped reflector's settings"
    if not request.done():
        printed = ended.err.decode("utf-8", "replace").strip() or ended.out.decode(
            "utf-8", "replace"
        )
        why = printed[-300:] or ended.why
        raise _uncounted_failure(
            f"reflector could not check {client.title} with a test request ({why})", "access"
        )
    forbidden = forbidden or _surplus(client, request.result())
    if forbidden:
        raise _uncounted_failure(
            f"reflector did not ask {client.title}, because {client.title} got more rights or "
            f"input than a judge may get: {forbidden}",
            "access",
        )


def _surplus(client: JudgeClient, body: bytes) -> str:
    """Return the content of a request beside the question, "" for none."""
    all_tools = json.loads(body).get("tools") or ()
    tools = [tool for tool in all_tools if tool != {"functionDeclarations": []}]
    if tools:
        return json.dumps(tools)[:200]
    return f"{len(body):,} bytes in addition to the question" if len(body) > client.largest else ""


@asynccontextmanager
async def _stand_in() -> AsyncIterator[tuple[str, asyncio.Future[bytes]]]:
    """Listen on loopback for the request with our question; answer all requests with an error."""
    request: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A connection that the client keeps open asks nothing, and is cancelled at the end.
        with suppress(
            OSError, ValueError, EOFError, asyncio.LimitOverrunError, asyncio.CancelledError
        ):
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: *(\d{1,8})\b", head, re.I)
            body = await reader.readexactly(int(length[1])) if length else b""
            if _CUE.encode() in body and not request.done():
                request.set_result(body)
            writer.write(
                b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"
            )
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", request


@asynccontextmanager
async def _turn(seconds: float, at_once: int = 1) -> AsyncIterator[None]:
    """Hold one of the user's locks: at most `at_once` judges at a time.

    Raises: BackendError if others take too long, OSError.
    """
    folder = consent.open_folder()
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    locks = [os.open(f"{folder}/lock{number or ''}", flags, 0o600) for number in range(_MOST)]
    try:
        end = time.monotonic() + seconds
        while (held := _free_lock(locks[:at_once])) is None:
            if time.monotonic() > end:
                raise _uncounted_failure(
                    "another judge is running on this machine; reflector repeats the question "
                    "later",
                    "transport",
                )
            await _pause(0.1)
        locks.remove(held)
        is_only_judge = all(files.lock(other, wait=False) for other in locks)
        if is_only_judge:
            for name in ("guard", "work"):  # of a judge that was killed
                shutil.rmtree(f"{folder}/{name}", ignore_errors=True)
        while locks:
            os.close(locks.pop())  # which releases the others
        locks.append(held)
        yield
    finally:
        for lock in locks:
            os.close(lock)


def _free_lock(locks: Sequence[int]) -> int | None:
    """Lock the first free one of some open files; return None if none is free."""
    return next((lock for lock in locks if files.lock(lock, wait=False)), None)


async def _pause(seconds: float) -> None:
    """Wait.

    Raises: KeyboardInterrupt if the asker was stopped, so that its client is ended.
    """
    if STOPPED.is_set():
        raise KeyboardInterrupt
    await asyncio.sleep(seconds)


@contextmanager
def _workplace(
    path: str, person: Mapping[str, str], model: str, without: Sequence[str] = ()
) -> Iterator[Ours]:
    """Yield a temporary folder and the variables in which a client runs, then remove the folder.

    The user's lock must be held.
    """
    guards = consent.open_folder("guard")
    word = token_hex(16)
    folder = Path(tempfile.mkdtemp(dir=consent.open_folder("work")))
    for name in ("empty", "home", "tmp"):
        (folder / name).mkdir(0o700)
    files.write_durably(guards, b"", word)
    try:
        environ = {name: value for name, value in person.items() if name not in without}
        environ |= {"TMPDIR": str(folder / "tmp"), "REFLECTOR_JUDGING": word}
        yield Ours(folder, person, model, path=path, environ=environ)
    finally:
        Path(guards, word).unlink(missing_ok=True)  # gone if the permission was withdrawn
        shutil.rmtree(folder, ignore_errors=True)


class _Start(NamedTuple):
    """The start of a client, and the conditions that end it.

    ours     its program, its variables and its folder
    words    the command line after the program
    environ  its further variables
    text     its standard input
    seconds  its longest run
    most     bytes of output; with more it is ended
    turn     a text that its output has once for each turn; at a second one it is ended
    shown    done when its request was seen, which ends it; None if nothing waits for that
    client   the client whose withdrawn permission ends it; "" for a start that needs none
    """

    ours: Ours
    words: Sequence[str]
    environ: Mapping[str, str] = MappingProxyType({})
    text: str = ""
    seconds: float = _BRIEF
    most: int = _MOST_OUT
    turn: bytes = b""
    shown: asyncio.Future[bytes] | None = None
    client: str = ""

    def why_over(self, out: int, err: int, deadline: float) -> Why:
        """Return why the process must be ended, by its output so far; "" for no reason."""
        if self.shown is not None and self.shown.done():
            return "seen"
        if max(os.fstat(out).st_size, os.fstat(err).st_size) > self.most:
            return "talkative"
        if time.monotonic() > deadline:
            return "time"
        if self.client and self.client not in consent.askable_clients():
            return "forbidden"
        has_second_turn = self.turn and os.pread(out, self.most, 0).count(self.turn) > 1
        return "turns" if has_second_turn else ""


async def _run(start: _Start) -> Ended:
    """Run a client to its end, and end everything that it started.

    Raises: OSError if it cannot be started.
    """
    with ExitStack() as stack:
        stdin, stdout, stderr = (
            stack.enter_context(tempfile.TemporaryFile(dir=start.ours.folder)) for _ in range(3)
        )
        stdin.write(start.text.encode("utf-8", "replace"))
        stdin.seek(0)
        process = subprocess.Popen(
            [start.ours.path, *start.words],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=start.ours.folder / "empty",
            env={**start.ours.environ, **start.environ},
            start_new_session=True,
        )
        out = stdout.fileno()
        err = stderr.fileno()
        deadline = time.monotonic() + start.seconds
        why: Why = ""
        try:
            while process.poll() is None and not why:
                await _pause(0.02)
                why = start.why_over(out, err, deadline)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        if os.fstat(out).st_size > start.most:
            why = why or "talkative"
        return Ended(code, os.pread(out, start.most, 0), os.pread(err, 1 << 16, 0), why)
