"""The person's own agent as the judge: asked without a screen, without tools, in an empty folder of
ours.

Invariant: no session is sent before this version of the client has shown, to a stand-in on
loopback, that it has no tool and sends nothing but the question. It is started with the variables
of the consent and never with those of the process that asks; with it ends everything that it
started. One judge of a person runs at a time, and while it runs a file of the person's has the name
that `REFLECTOR_JUDGING` holds, so that our hooks know its session.
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
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from secrets import token_hex

from reflector import files
from reflector.config import CONSENT
from reflector.judges import consent
from reflector.judges.agent_clients import JUDGES, JudgeClient, Ours, Said
from reflector.judges.excerpt import estimate_tokens
from reflector.judges.model import SHORTER, Reply
from reflector.judges.protocol import BackendError
from reflector.prices import Usage

#: No answer is longer; a client's frame around one may be.
MOST_ANSWER = 64 << 10
_MOST_OUT = 4 * MOST_ANSWER
_CUE = "Answer with an empty JSON object."
#: Seconds for a client's version, and for it to show its request.
_BRIEF = 60.0
#: How long a client rests that hit its limit twice in a row and does not say until when.
_REST = 3_600.0
_LIMITED = re.compile(
    r"rate.?limit|(?:usage|session|weekly|hit your) limit|quota|too many requests|\(?\b429\b",
    re.I,
)
_LOGGED_OUT = re.compile(
    (
        r"log(?:ged)? "
        r"?in\b|\bauth\b|authenticat|authoriz|\b40[13]\b|api.?key"
        r"|credentials"
    ),
    re.I,
)
_TOO_LONG = re.compile(
    r"input_too_large|prompt is too long|prompt budget|context (?:window|limit|length)",
    re.I,
)
_NO_MODEL = re.compile(
    r"\b404\b|(?:unknown|invalid|no such) model|model.{0,80}(?:not found|does not exist)",
    re.I,
)
_AWAY = re.compile(
    (
        r"\b5[0-9]{2}\b|overloaded|time(?:d )?.?out|unavailable|connect|network|socket|fetch "
        r"failed|\bE[A-Z]{4,}\b|stream"
    ),
    re.I,
)
_AGAIN_IN = re.compile(r"(\d+)\s*(day|hour|minute|second|[dhms]\b)", re.I)
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


@dataclass(frozen=True, slots=True)
class Ended:
    """A process that ended: its exit code and output; `why` we ended it, "" where we did not."""

    code: int
    out: bytes
    err: bytes
    why: str = ""


@dataclass(frozen=True, slots=True)
class AgentClient:
    """Asks the agent that wrote a session, else the one that the person named.

    writer    as what the session's agent is recorded, "" where no session is asked about
    named     the client of the setting `judge_client`, "" for the session's own
    model     asked instead of the client's cheapest, where a client is named
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
        """Return who is asked, as `--agent` has it; "" for nobody."""
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
        """Ask one question in a process of its own. Raises BackendError and nothing else."""
        client, agreed = self._agreed()
        try:
            async with _alone(self.deadline):
                state = consent.state_of(client.name)
                try:
                    said = await self._asked(client, agreed, state, "".join(texts))
                    state.limits = 0
                except Limited as error:
                    state.limits += 1
                    if state.limits > 1:  # none until it is over
                        error.retry_after = error.retry_after or _REST
                        state.until = time.time() + error.retry_after
                    raise
                finally:
                    consent.keep_state(client.name, state)
        except OSError as error:
            raise _refusal(f"no judge can run here: {files.error_words(error)}", "access") from None
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise _refusal(
                (f"{client.title} printed what cannot be read: {error}"), "answer"
            ) from error
        return Reply(said.text, said.model, said.stop or "end_turn", said.usage, cost=said.cost)

    def admit(self) -> None:
        """Raise BackendError where nobody can be asked now; nothing is spent on that."""
        self._agreed()

    def _agreed(self) -> tuple[JudgeClient, consent.Agreed]:
        agreed, name = consent.read(), self.name()
        if not agreed:
            raise _refusal(f"you have not let an agent judge; run: {CONSENT}", "access")
        if name not in agreed:
            who = JUDGES[name].title if name else f"{self.writer or 'an agent'} that cannot judge"
            whom = f"set judge_client to one of {', '.join(agreed)}"
            raise _refusal(
                f"{who} is not among the agents that you let judge; run {CONSENT}, or {whom}",
                "access",
            )
        if (rest := consent.state_of(name).until - time.time()) > 0:
            raise _refusal(f"{JUDGES[name].title} hit its limit; it is asked again", "access", rest)
        return JUDGES[name], agreed[name]

    async def _asked(
        self, client: JudgeClient, agreed: consent.Agreed, state: consent.State, text: str
    ) -> Said:
        model = self.model if self.named and self.model else client.model
        with _workplace(agreed.environ, model) as (ours, environ):
            ours = await _ready(client, agreed, state, ours, environ)
            words = [agreed.path, *client.command(ours)]
            most = _MOST_OUT + 8 * client.echoes * len(text.encode())
            started = {**environ, **client.prepare(ours)}
            ended = await _run(
                words, started, ours, text, self.deadline, most, client.turn.encode()
            )
            said = client.read(ended.out, ended.err, ours)
            if trouble := _trouble(client, ended, said, self.deadline):
                # It may have been asked: a request that failed or was killed is counted as what it
                # may have taken.
                is_free = trouble.stage == "access" and not said.usage.total
                asked = said.usage if said.usage.total else Usage(estimate_tokens(text))
                trouble.usage = Usage() if is_free else asked
                trouble.attempts = 1
                raise trouble
            return said


async def check(name: str, agreed: consent.Agreed) -> str:
    """Return the version of a client that showed that it can judge. Raises BackendError where it
    cannot, OSError.
    """
    client, state = JUDGES[name], consent.State()
    async with _alone(_BRIEF):
        with _workplace(agreed.environ, client.model) as (ours, environ):
            await _ready(client, agreed, state, ours, environ)
        consent.keep_state(name, state)
    return state.proved.partition(" ")[0]


async def _ready(
    client: JudgeClient,
    agreed: consent.Agreed,
    state: consent.State,
    ours: Ours,
    environ: Mapping[str, str],
) -> Ours:
    """Return what a start needs to know, of a version that has shown that it is locked down.
    Raises BackendError.
    """
    version = await _version(client, agreed, environ, ours)
    if client.first:
        told = await _run([agreed.path, *client.first], environ, ours, "", _BRIEF, 16 << 20)
        ours = replace(ours, told=told.out)
    line = json.dumps([agreed.path, ours.model, client.words, *client.variables.items()])
    proof = f"{version} {sha256(line.encode()).hexdigest()[:16]}"
    if state.proved != proof:
        await _shown(client, agreed, ours)
        state.proved = proof
    return ours


def _trouble(client: JudgeClient, ended: Ended, said: Said, seconds: float) -> BackendError | None:
    """Return why a process gave no answer that can be used, in words that say what to do; None
    where it did.
    """
    if ended.why == "time":
        way_out = "see whether it answers in a terminal, or raise deadline_seconds"
        return _refusal(
            f"{client.title} did not answer within {seconds:.0f} s and was ended; {way_out}",
            "transport",
        )
    if said.kept:
        return _refusal(f"{client.title} had what a judge must not have: {said.kept}", "access")
    if ended.why == "turns":
        return _refusal(f"{client.title} called a tool that it does not have", "answer")
    if ended.why or len(said.text.encode("utf-8", "replace")) > MOST_ANSWER:
        said_too_much = (
            f"{client.title} printed more than {MOST_ANSWER >> 10} KB; an answer is never that long"
        )
        return _refusal(said_too_much, "answer")
    if said.stop == "refusal":
        return None  # the model's answer, and read as one
    if ended.code == 0 and not said.error:
        return (
            None
            if said.text
            else _refusal((f"{client.title} ended without an answer ({said.stop})"), "answer")
        )
    words = f"{said.error} {ended.err.decode('utf-8', 'replace')[-2_000:]}".strip()
    what = (
        f"{client.title} failed (exit code {ended.code}): "
        f"{said.error or words[-300:] or 'it printed nothing'}"
    )
    if _TOO_LONG.search(words):
        return BackendError(what + SHORTER, stage="request")
    if _LIMITED.search(words):
        what = (
            f"{client.title} hit its limit ({said.error or words[-300:]}); it is asked again "
            "by itself"
        )
        return Limited(what, stage="access", retry_after=_seconds_until(words))
    if _LOGGED_OUT.search(words):
        return _refusal(
            f"{client.title} is logged out: {client.names[2]} ({said.error or words[-300:]})",
            "access",
        )
    if _NO_MODEL.search(words):
        return _refusal(f"{what}; set judge_client, and model to one that it has", "access")
    # What does not show that the API is away may be the session's own doing: it uses up an attempt.
    return _refusal(what, "transport" if _AWAY.search(words) else "answer")


class Limited(BackendError):
    """A client's limit is reached; `retry_after` where it says for how long."""


def _refusal(said: str, stage: str, rest: float = 0.0) -> BackendError:
    """Return a failure; with a rest, its words say until when."""
    if rest > 0:
        said += f" after {time.strftime('%Y-%m-%d %H:%M', time.localtime(time.time() + rest))}"
    return BackendError(said, stage=stage, attempts=0, retry_after=rest)


def _seconds_until(words: str) -> float:
    """Return for how long a limit lasts, as a client says it: a time, or a span; 0.0 where it
    says neither.
    """
    if at := re.search(r"\b(1[6-9]\d{8}|[2-9]\d{9})\b", words):
        return min(max(60.0, int(at[1]) - time.time()), 8 * 86_400)
    spans = _AGAIN_IN.findall(words.rpartition(" in ")[2])
    return float(
        min(sum(int(number) * _SECONDS[unit[0].lower()] for number, unit in spans), 8 * 86_400)
    )


async def _version(
    client: JudgeClient, agreed: consent.Agreed, environ: Mapping[str, str], ours: Ours
) -> str:
    """Return the client's version. Raises BackendError where it is not there, or its version was
    not tried.
    """
    again = f"run: {CONSENT}"
    if not Path(agreed.path).is_file():
        raise _refusal(
            (f"{client.title} is not at {agreed.path} any more; install it, and {again}"), "access"
        )
    ended = await _run([agreed.path, "--version"], environ, ours, "", _BRIEF, _MOST_OUT)
    found = re.search(rb"\d+(?:\.\d+)+", ended.out)
    if ended.code or ended.why or found is None:
        said = ended.err.decode("utf-8", "replace").strip()[-200:]
        raise _refusal(
            f"{agreed.path} --version fails ({said or ended.code}); mend it, and {again}",
            "access",
        )
    version = found[0].decode()
    number = tuple(map(int, version.split(".")))
    since, below = (tuple(map(int, one.split("."))) for one in client.versions)
    if not since <= number < below:
        way_out = "update it" if number < since else "update reflector"
        tried = f"it judges from {client.versions[0]} up to {client.versions[1]}"
        raise _refusal(f"{client.title} is {version}; {tried}: {way_out}", "access")
    return version


async def _shown(client: JudgeClient, agreed: consent.Agreed, ours: Ours) -> None:
    """Let a client show what it would send, to a stand-in, about an empty question. Raises
    BackendError for a tool, or for more than the question.
    """
    async with _stand_in() as (url, asked):
        with _workplace(agreed.environ, ours.model, client.logins) as (shown, own):
            shown = replace(shown, url=url, told=ours.told)
            own = {**own, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
            started = {**own, **client.prepare(shown)}
            words = [agreed.path, *client.command(shown)]
            ended = await _run(words, started, shown, _CUE, _BRIEF, _MOST_OUT, seen=asked)
            kept = client.read(ended.out, ended.err, shown).kept
    if b"Skipping" in ended.err.replace(b"Skipping metrics", b""):  # of how long its own start took
        kept = kept or "settings that it skipped"
    if not asked.done():
        said = (
            ended.err.decode("utf-8", "replace").strip()[-300:]
            or ended.out.decode("utf-8", "replace")[-300:]
        )
        raise _refusal(
            (f"{client.title} did not show what it would send ({said or ended.why})"), "access"
        )
    body = asked.result()
    tools = [
        one for one in json.loads(body).get("tools") or () if one != {"functionDeclarations": []}
    ]
    if tools:
        kept = kept or json.dumps(tools)[:200]
    elif len(body) > client.largest:
        kept = kept or f"{len(body):,} bytes beside the question"
    if kept:
        raise _refusal(
            f"{client.title} keeps what a judge must not have, so it is not asked: {kept}",
            "access",
        )


@asynccontextmanager
async def _stand_in() -> AsyncIterator[tuple[str, asyncio.Future[bytes]]]:
    """Listen on loopback for the request that holds our question; answer every one with an
    error.
    """
    asked: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A connection that the client keeps open asks nothing, and is cancelled at the end.
        with suppress(
            OSError, ValueError, EOFError, asyncio.LimitOverrunError, asyncio.CancelledError
        ):
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: *(\d{1,8})\b", head, re.I)
            body = await reader.readexactly(int(length[1])) if length else b""
            if _CUE.encode() in body and not asked.done():
                asked.set_result(body)
            writer.write(
                b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"
            )
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


@asynccontextmanager
async def _alone(seconds: float) -> AsyncIterator[None]:
    """Hold the person's lock: one judge at a time. Raises BackendError where another one takes
    too long, OSError.
    """
    fd = os.open(f"{consent.open_folder()}/lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        end = time.monotonic() + seconds
        while not files.lock(fd, wait=False):
            if time.monotonic() > end:
                raise _refusal(
                    "another judge of yours is at work; this one waits for its end", "transport"
                )
            await asyncio.sleep(0.1)
        for left in ("guard", "work"):  # by a judge that was killed
            shutil.rmtree(f"{consent.open_folder()}/{left}", ignore_errors=True)
        yield
    finally:
        os.close(fd)


@contextmanager
def _workplace(
    person: Mapping[str, str], model: str, without: Sequence[str] = ()
) -> Iterator[tuple[Ours, dict[str, str]]]:
    """Yield a folder of ours and the variables of a start; the person's lock must be held."""
    guards, places = consent.open_folder("guard"), consent.open_folder("work")
    word = token_hex(16)
    folder = Path(tempfile.mkdtemp(dir=places))
    for name in ("empty", "home", "tmp"):
        (folder / name).mkdir(0o700)
    files.write_durably(guards, b"", word)
    try:
        given = {name: value for name, value in person.items() if name not in without}
        yield (
            Ours(folder, person, model),
            {**given, "TMPDIR": str(folder / "tmp"), "REFLECTOR_JUDGING": word},
        )
    finally:
        os.unlink(f"{guards}/{word}")  # noqa: PTH108
        shutil.rmtree(folder, ignore_errors=True)


async def _run(
    words: Sequence[str],
    environ: Mapping[str, str],
    ours: Ours,
    text: str,
    seconds: float,
    most: int,
    turn: bytes = b"",
    seen: asyncio.Future[bytes] | None = None,
) -> Ended:
    """Run a client to its end, which comes at the latest after so many seconds, with so much
    output, at its second turn, or when its request was seen; with it ends all that it started.
    Raises OSError where it cannot be started.
    """
    with ExitStack() as opened:
        given, out, err = (
            opened.enter_context(tempfile.TemporaryFile(dir=ours.folder)) for _ in range(3)
        )
        given.write(text.encode("utf-8", "replace"))
        given.seek(0)
        process = subprocess.Popen(
            list(words),
            stdin=given,
            stdout=out,
            stderr=err,
            cwd=ours.folder / "empty",
            env=dict(environ),
            start_new_session=True,
        )
        why, end = "", time.monotonic() + seconds
        try:
            while process.poll() is None and not why:
                await asyncio.sleep(0.02)
                size = max(os.fstat(out.fileno()).st_size, os.fstat(err.fileno()).st_size)
                if seen is not None and seen.done():
                    why = "seen"
                elif size > most:
                    why = "talkative"
                elif time.monotonic() > end:
                    why = "time"
                elif turn and os.pread(out.fileno(), most, 0).count(turn) > 1:
                    why = "turns"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        size = os.fstat(out.fileno()).st_size
        if size > most:
            why = why or "talkative"
        return Ended(code, os.pread(out.fileno(), most, 0), os.pread(err.fileno(), 1 << 16, 0), why)
