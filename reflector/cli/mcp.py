"""`reflector mcp`: the playbook as tools of the agent (Model Context Protocol, over stdio).

Invariant: stdout contains only the protocol, which the SDK ensures, and notes for users go to
stderr. Every answer is bounded. No tool makes a change of the playbook that a user must approve.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import click
from pydantic import Field

from reflector import __version__
from reflector.audit.blame import Step, blame_bullet
from reflector.changes.propose import MOST_ACCEPTED, approve_proposal, may_accept, propose
from reflector.cli.app import Place, explained
from reflector.cli.lessons import SAID
from reflector.cli.options import NAME, SECTION, bullet_named
from reflector.cli.output import json_of
from reflector.embed.lessons.book import lesson_book
from reflector.embed.lessons.recall import bullets_about
from reflector.embed.lessons.recording import observe_outcome
from reflector.ledger.store import BulletRow, Ledger
from reflector.mistakes import Mistake
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change
from reflector.playbook.names import SECTIONS
from reflector.resources import remedy_for_extra
from reflector.text.bounds import clean
from reflector.text.secrets import quote

if TYPE_CHECKING:
    from mcp.server import MCPServer

#: The most characters of an error, which may repeat the agent's input.
_MOST_ERROR = 2_000
#: The kinds of changes that an agent may propose, with their arguments. A merge may also have a
#: section.
_KINDS = {
    "add": ("text", "section"),
    "revise": ("text", "names"),
    "merge": ("text", "names"),
    "remove": ("names",),
}
#: reflector checks it, because the SDK's answer to a wrong value is a page long.
Section = Annotated[str, Field(json_schema_extra={"enum": list(SECTIONS)})]
Proposable = Annotated[str, Field(json_schema_extra={"enum": list(_KINDS)})]
Said = Annotated[str, Field(json_schema_extra={"enum": ["good", "bad"]})]
#: The most bullets, steps, and characters of a judge's reason in one answer.
_MOST_BULLETS = 20
_MOST_STEPS = 20
_MOST_REASON = 300

_INSTRUCTIONS = """\
The playbook contains rules from earlier sessions, and shows how often each helped or harmed.
You see the best rules
when a session starts. search_playbook finds the other rules. When a rule influences your \
reasoning, \
cite its name in your
visible answer, in brackets: [pat-001], or [pat-001 wrong: why] if the rule was wrong or did \
not fit."""


@click.command()
@click.pass_obj
def mcp(place: Place) -> None:
    """Serve the playbook to an agent over MCP.

    `mcp` offers the agent the tools search_playbook, why, propose_change and lesson_outcome. If the
    setting `proposals` is "ask" (default), an agent's proposal waits for your decision in
    `reflector review`. To use `mcp`, install reflector with its optional part `mcp`.
    """
    try:
        from mcp.server import MCPServer
    except ImportError as error:
        raise click.ClickException(
            f"this command needs version 2 of the package mcp ({error}); {remedy_for_extra('mcp')}"
        ) from error
    place.project()  # report a mistake in the settings now
    server = MCPServer(
        "reflector", version=__version__, instructions=_INSTRUCTIONS, log_level="CRITICAL"
    )
    add_tools(server, place)
    server.run()


def add_tools(server: MCPServer[Any], place: Place) -> None:
    """Add the four tools to a server."""
    from mcp.types import ToolAnnotations

    tools = _Tools(place)
    asks = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    server.add_tool(tools.search_playbook, annotations=asks)
    server.add_tool(tools.why, annotations=asks)
    repeatable = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True)
    server.add_tool(tools.propose_change, annotations=repeatable)
    counts = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False)
    server.add_tool(tools.lesson_outcome, annotations=counts)


class _Tools:
    """The tools of an agent in a place. The agent reads the docstring of each."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def search_playbook(self, query: str, section: Section | None = None) -> list[dict[str, Any]]:
        """Find rules in the project's playbook and in the user's own playbook. Returns at most 20
        rules, the best match first.

        query: a few words; "" lists the best rules. section: pat (patterns), mis (mistakes to
        avoid), pref (user preferences), ctx (project context) or oth.
        """
        bullets: dict[str, Bullet] = {}
        with _errors_for_the_agent():
            chosen = SECTION.convert(section, None, None) if section is not None else None
            for ledger in _ledgers(self._place.again()):
                for bullet in ledger.bullets():
                    # If both playbooks have a bullet of this name, the name means the project's.
                    bullets.setdefault(bullet.name, bullet)
        candidates = (b for b in bullets.values() if chosen in (None, b.section))
        return [json_of(bullet) for bullet in bullets_about(candidates, query)[:_MOST_BULLETS]]

    def why(self, name: str) -> dict[str, Any]:
        """Explain a rule's counts. Returns the last 20 verdicts on the rule, each with its session
        and reason.

        name: such as pat-001.
        """
        with _errors_for_the_agent():
            row, steps = self._explained(NAME.convert(name, None, None))
        last = [
            {
                "recorded_at": step.recorded_at,
                "session_id": step.session_id,
                "counted": step.counted,
                "helpful": step.helpful,
                "harmful": step.harmful,
                "verdict": step.tag or step.disposition,
                "why": clean(step.rationale or "", _MOST_REASON),
            }
            for step in steps[-_MOST_STEPS:]
        ]
        return {
            "bullet": row.bullet.line,
            "status": row.status,
            "earlier_steps": len(steps) - len(last),
            "steps": last,
        }

    def _explained(self, name: str) -> tuple[BulletRow, Sequence[Step]]:
        """Return the bullet of a name and its steps, from the first playbook that has it."""
        for ledger in _ledgers(self._place.again()):
            row = bullet_named(ledger, name)
            if row is not None:
                return row, blame_bullet(ledger, row.name)
        raise click.UsageError(
            f"the playbook does not have a rule {clean(name, 64)!r}; to find a rule, call "
            "search_playbook"
        )

    def propose_change(
        self,
        kind: Proposable,
        reason: str,
        text: str | None = None,
        section: Section | None = None,
        names: list[str] | None = None,
    ) -> dict[str, Any]:
        """Propose a change of the playbook. The user decides, unless the user's settings accept it.

        kind: add (text, section), revise (text, one name), merge (text, two or more names) or
        remove (one name). text: one sentence that helps in later sessions, at most 500
        characters, without secrets. section: pat (patterns), mis (mistakes to avoid), pref (user
        preferences), ctx (project context) or oth. reason: the event that shows the need.
        """
        with _errors_for_the_agent(), self._place.again().pipeline() as pipeline:
            plain = [NAME.convert(name, None, None) for name in names or ()]
            change = _change(pipeline.ledger, kind, text, section, plain)
            proposal = propose(
                pipeline.ledger, change, origin="agent", trust="agent", reason=reason, actor="agent"
            )
            answer = {
                "proposal": proposal.id[:8],
                "state": proposal.state,
                "name": proposal.name,
                "why": proposal.why,
            }
            # With the right setting, advice is added without a question. Only the user changes
            # existing advice, or advice that the user undid.
            accepts = (
                kind == "add"
                and proposal.state == "waiting"
                and proposal.undone_at is None
                and pipeline.project.config.proposals == "accept"
            )
            if accepts and may_accept(pipeline.ledger):
                bullet = approve_proposal(
                    pipeline.ledger, proposal, actor="agent", first=pipeline.project.first_number
                )
                pipeline.write()
                answer |= {"state": "approved", "name": bullet.name}
            elif accepts:
                answer["why"] = (
                    f"reflector accepts at most {MOST_ACCEPTED} proposals a day without asking "
                    "the user. The user decides on this proposal with `reflector review`"
                )
        return {key: value for key, value in answer.items() if value is not None}

    def lesson_outcome(self, lesson: str, outcome: Said, why: str) -> dict[str, Any]:
        """Say whether a lesson that you applied helped (good) or misled (bad).

        lesson: the id of the lesson, or its beginning. why: the reason, such as a test that
        passes now.
        """
        with _errors_for_the_agent(), self._place.again().changing() as ledger:
            if outcome not in SAID:
                raise Mistake(
                    f"`outcome` is {clean(outcome, 40)!r}; it must be one of {', '.join(SAID)}"
                )
            id = lesson_book(ledger).named(lesson).id
            observe_outcome(ledger, id, SAID[outcome], quote(why, _MOST_REASON), source="agent")
            judged = lesson_book(ledger).named(id)
        return {
            "lesson": id[:8],
            "effectiveness": judged.effectiveness,
            "confidence": judged.confidence,
            "state": judged.state,
        }


def _change(
    ledger: Ledger, kind: str, text: str | None, section: str | None, names: list[str]
) -> Change:
    """Return the change for a tool's arguments.

    Raises: Mistake if an argument is missing or superfluous.
    """
    if kind not in _KINDS:
        raise Mistake(f"kind is {clean(kind, 40)!r}; it must be one of {', '.join(_KINDS)}")
    arguments = {"text": text, "section": section, "names": names}
    given = [argument for argument, value in arguments.items() if value]
    optional = {"section"} if kind == "merge" else set()
    if {*given} - optional != {*_KINDS[kind]}:
        raise Mistake(
            f"{kind} needs {' and '.join(_KINDS[kind])}, but this call has "
            f"{' and '.join(given) or 'none'}"
        )
    where = SECTION.convert(section, None, None) if section else None
    if kind == "add":
        return Change("add", section=where, text=text)
    if kind == "merge":
        first = ledger.row(names[0]) if names else None
        return Change(
            "merge",
            names=tuple(names),
            section=where or (first.section if first else None),
            text=text,
        )
    if len(names) != 1:
        raise Mistake(
            f"`names` contains {len(names)} names, but {kind} needs the name of exactly one rule, "
            "such as pat-001"
        )
    return Change("revise", names[0], text=text) if kind == "revise" else Change("remove", names[0])


def _ledgers(place: Place) -> Iterator[Ledger]:
    """Yield the project's ledger, then the ledger of the user's own playbook."""
    for where in (place, *([] if place.project().is_users else [Place(None, user=True)])):
        with where.reading() as ledger:
            yield ledger


@contextmanager
def _errors_for_the_agent() -> Iterator[None]:
    """Raise errors that the agent or the user can repair as tool errors, with their own text."""
    from mcp.server.mcpserver.exceptions import ToolError

    try:
        yield
    except (click.ClickException, Mistake) as error:
        raise ToolError(str(error)[:_MOST_ERROR]) from error
    except Exception as error:
        if (known := explained(error)) is None:
            raise
        raise ToolError(known[1][:_MOST_ERROR]) from error
