"""One random history of three machines, which a seed gives: what each person does, and what must
hold.
"""

from __future__ import annotations

import json
import random
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.campaign import checks, folds
from tests.campaign.machines import Machine, Ran, Recorded, Row
from tests.campaign.model import Act, Birth, Play, View
from tests.road.sessions import Session

NAMES = ("a", "b", "c")
POLICIES = ("as_applied", "once_per_reflection", "once_per_session")
#: The call before which a command is killed at the latest; about as many as each makes.
_MOST_CALLS = 420
#: How often a person does what; `import` is of another machine's ledger.
_DEEDS = {
    "add": 5,
    "add_alike": 2,
    "revise": 4,
    "move": 2,
    "remove": 3,
    "merge": 2,
    "recount": 2,
    "edit_file": 2,
    "edit_both": 2,
    "session": 5,
    "shared_session": 3,
    "judge": 4,
    "undo": 5,
    "undo_named": 2,
    "undo_position": 2,
    "undo_session": 2,
    "redact": 3,
    "policy": 1,
    "markdown": 1,
    "proposal": 1,
    "import": 5,
    "backup": 1,
    "restore": 2,
}
_SLUGS = ("pat", "mis", "ctx", "oth")


class Broken(Exception):
    """Something that must hold does not."""

    def __init__(self, kind: str, details: str) -> None:
        super().__init__(f"{kind}: {details}")
        self.kind = kind


@dataclass
class Group:
    """What one command of a machine did: the keys of its acts, and the bullets as they were
    before it.
    """

    kind: str
    keys: frozenset[str]
    before: dict[str, Row]


@dataclass
class Person:
    """A machine with what it should know."""

    machine: Machine
    view: View = field(default_factory=View)
    #: The keys of acts by the id of the event that this ledger has for them.
    keys: dict[str, str] = field(default_factory=dict)
    own: list[Group] = field(default_factory=list)
    undone: set[str] = field(default_factory=set)
    #: The head up to which each other machine's ledger was imported.
    seen: dict[str, str] = field(default_factory=dict)
    chains: list[str] = field(default_factory=list)
    #: Whether a copy took the place of the ledger, so that `verify` names the events that came
    #: after it.
    is_behind: bool = False
    backup: Person | None = None
    backup_file: Path | None = None

    @property
    def name(self) -> str:
        return self.machine.name

    def copy(self) -> Person:
        copied = Person(
            self.machine, self.view.copy(), dict(self.keys), list(self.own), set(self.undone)
        )
        copied.seen, copied.chains = dict(self.seen), list(self.chains)
        return copied


class History:
    """A history with its machines in a folder. `steps` are those that are played, all where it
    is None.
    """

    def __init__(
        self,
        seed: int,
        folder: Path,
        urls: Sequence[str] = ("", "", ""),
        steps: set[int] | None = None,
    ) -> None:
        self.seed = seed
        self.folder = folder
        self.chance = random.Random(f"campaign {seed}")
        self.script: list[str] = []
        self.people = [
            Person(Machine(name, folder, url, self.script.append))
            for name, url in zip(NAMES, urls, strict=True)
        ]
        self.acts: dict[str, Act] = {}
        self.ids: dict[str, tuple[str, str]] = {}
        self.problems: list[tuple[str, str]] = []
        self.figures: Counter[str] = Counter()
        self.clock = 0
        self.number = 0
        self.chosen = steps
        self.writes = self.chance.randrange(10)
        self.base: dict[str, str] = {}
        self.shared: list[tuple[Path, list[tuple[str, str]]]] = []
        self.restores = 0
        self.erased: list[str] = []

    # The course

    def play(self) -> None:
        """Play the history to its end. Raises Broken for what must hold and does not."""
        try:
            self._begin()
            for _ in range(2):
                for _ in range(self.chance.randint(9, 14)):
                    self._step()
                self._exchange()
            for person in self.people:
                checks.rebuilds(person.machine, self._must)
        except Broken as broken:
            self.problems.append((broken.kind, str(broken)))
        except Exception:  # noqa: BLE001 - a long run names it and goes on
            self.problems.append(("the campaign itself broke", traceback.format_exc()[-1500:]))

    def _begin(self) -> None:
        first, *others = self.people
        way = self.chance.choice(["clones", "clones", "clones", "restored", "apart", "apart"])
        self.figures[f"begun {way}"] += 1
        if way == "apart":
            return
        for _ in range(self.chance.randint(2, 4)):
            self._add(first, random.Random(self.chance.random()))
        self._session(first, random.Random(self.chance.random()))
        self.base = dict(first.view.names)
        self._make_shared_sessions()
        if way == "restored" and not first.machine.url:
            copy = self.folder / "base.backup"
            ran, _ = self._do(first, "ledger", "backup", str(copy))
            if ran.is_killed:
                self._do(first, "ledger", "backup", str(copy))
            for other in others:
                self._begun_with(other, first, "ledger", "restore", str(copy))
        else:
            file = self._export(first)
            for other in others:
                self._begun_with(other, first, "import", str(file))

    def _begun_with(self, person: Person, first: Person, *words: str) -> None:
        """Give a machine the ledger of the first one."""
        ran, _ = self._do(person, *words, foreign=first.keys.keys())
        if ran.is_killed and not person.machine.head():
            self._do(person, *words, foreign=first.keys.keys())
        copied = first.copy()
        person.view, person.keys = copied.view, copied.keys
        person.chains = [event.chain for event in person.machine.events()]
        self._must(
            person.chains == first.chains,
            "copy differs",
            f"{person.name} is no copy of {first.name}",
        )

    def _make_shared_sessions(self) -> None:
        names = sorted(self.base)
        for number in range(3):
            cited = [
                (name, self.chance.choice(["helpful", "harmful"]))
                for name in self.chance.sample(names, 1)
            ]
            self.shared.append((self._transcript(f"s-both-{number}", cited), cited))

    def _step(self) -> None:
        self.number += 1
        self.figures["last step"] = self.number
        chance = random.Random(f"campaign {self.seed} step {self.number}")
        if self.chosen is not None and self.number not in self.chosen:
            return
        person = chance.choice(self.people)
        deed = chance.choices(list(_DEEDS), list(_DEEDS.values()))[0]
        if deed not in ("import", "restore", "markdown", "policy") and not self._live(person):
            deed = "add"
        self.script.append(f"# step {self.number}: {deed}")
        work: Callable[[Person, random.Random], None] = getattr(self, f"_{deed}")
        self.figures["steps"] += 1
        self.figures[f"deed {deed}"] += 1
        work(person, chance)
        self._learn(person)
        self._compare(person)

    def _learn(self, person: Person) -> None:
        """Now and then, record what no command of a history does: lessons, and a trial.

        It draws by itself, so that a seed gives the same commands as before there was any.
        """
        seed = f"campaign {self.seed} step {self.number} learns"
        chance = random.Random(seed)
        if chance.random() < 0.3 and person.machine.head():
            self.script.append(f"# {person.name} records a lesson by the API")
            person.machine.asks(lambda: folds.learn(seed))
        if chance.random() < 0.1 and self._live(person):
            person.machine.run("trial", *chance.choice([("start", "--yes"), ("stop",)]))
        self._catch_up(person)

    # One command

    def _do(
        self, person: Person, *words: str, kind: str = "change", foreign: Collection[str] = ()
    ) -> tuple[Ran, list[Recorded]]:
        """Run a command, killed if it is its turn; its answer, and the events that it appended.
        `foreign` are the ids of events that it brings from another machine.
        """
        self._catch_up(person)
        machine = person.machine
        before, rows = machine.head(), {row.name: row for row in machine.rows()}
        own = random.Random(f"{self.seed} {self.number} {self.writes} {words[0]}")
        self.writes += 1
        kill_at = own.randint(1, _MOST_CALLS) if self.writes >= 10 else 0
        ran = machine.run(*words, kill_at=kill_at, is_spawned=own.random() < 0.02)
        self.figures["commands"] += 1
        if kill_at:
            self.figures["kills"] += ran.is_killed
            self.figures["kills too late"] += not ran.is_killed
        if ran.is_killed:
            self.writes = 0
            self._after_a_kill(person)
        if "--yes" in ran.err and ran.code == 2 and "--yes" not in words:
            return self._do(person, *words, "--yes", kind=kind)
        self._must(
            "Traceback" not in ran.err and ran.code in (0, 1, 2, -9),
            "a command broke",
            f"{words}: {ran.err}",
        )
        events = machine.events(before)
        self._take(person, events, Group(kind, frozenset(), rows), foreign)
        # Proposals fall away before any command answers.
        made = [event for event in events if event.actor != "reflector"]
        self._must(
            not made or ran.code in (0, -9),
            "a refused command wrote",
            f"{person.name} {words}: {ran.err} {made}",
        )
        return ran, events

    def _catch_up(self, person: Person) -> None:
        """Know what a question recorded: an edit of playbook.json that a kill had left."""
        events = person.machine.events(len(person.chains))
        self._take(person, events, Group("file", frozenset(), {}), ())

    def _after_a_kill(self, person: Person) -> None:
        """What was acknowledged is there, and the ledger is whole."""
        found = [event.chain for event in person.machine.events()]
        kept = found[: len(person.chains)] == person.chains
        self._must(
            kept,
            "a kill lost events",
            f"{person.name} had {len(person.chains)} events, now {len(found)}",
        )
        ran = person.machine.run("list", quiet=True)
        self._must(ran.code == 0, "a kill broke the next command", ran.err)
        if found:
            ran = person.machine.run("verify", quiet=True)
            is_sound = (ran.code, ran.out) == (0, "") or (
                person.is_behind and "lacks events" in ran.out
            )
            self._must(is_sound, "verify after a kill", ran.out + ran.err)

    def _take(
        self, person: Person, events: list[Recorded], group: Group, foreign: Collection[str]
    ) -> None:
        """Know what a command of this machine did."""
        keys = []
        for event in events:
            person.chains.append(event.chain)
            if "merged" in event.meta or event.actor == "merge" or event.event_id in foreign:
                continue
            act = self._act(person, event, is_of_file=group.kind == "file")
            if act is not None:
                self.clock += 1
                self.acts.setdefault(act.key, act)
                step = person.view.acts.get(act.key, self.clock)
                person.view.acts[act.key] = step
                keys.append(act.key)
        if keys:
            person.own.append(replace(group, keys=frozenset(keys)))

    def _act(self, person: Person, event: Recorded, *, is_of_file: bool) -> Act | None:
        """The act that an event records, under the births that its names mean on this machine. What
        a file says is one act, on whichever machines it is read.
        """
        data, names = event.data, person.view.names
        by_person = event.actor == "human"
        key = f"{person.name}{self.clock}:{event.event_id[:8]}" if by_person else event.event_id
        if is_of_file:
            key = f"file {event.event_id} {json.dumps(data, sort_keys=True)}"
        elif event.type == "evidence.retracted":
            key = f"out of {person.keys.get(event.target or '', event.target or '')}"
        self._note_id(person, event, key)
        person.keys[event.event_id] = key
        more = {
            "target": person.keys.get(event.target or "", event.target or ""),
            "session": event.session or "",
            "reflection": f"{key.partition(':')[0] if by_person else ''}{event.reflection or ''}",
            "is_by_person": by_person,
        }
        if by_person and event.reflection:
            # The acts of one verdict belong together, and to no other machine's.
            more["reflection"] = person.keys.setdefault(
                f"reflection {event.reflection}", f"{key} reflection"
            )

        def made(kind: str, **said: object) -> Act:
            return Act(key, kind, said, **more)  # type: ignore[arg-type]

        def born(bullets: Sequence[dict[str, object]]) -> list[str]:
            births = []
            for index, one in enumerate(bullets):
                birth = Birth(
                    f"{key}#{index}",
                    str(one["name"]),
                    str(one["section"]),
                    str(one["text"]),
                    (int(one.get("helpful") or 0), int(one.get("harmful") or 0)),  # type: ignore[call-overload]
                )
                person.view.births[birth.key] = birth
                names[birth.name] = birth.key
                births.append(birth.key)
            return births

        if event.type == "playbook.imported":
            return made("import", births=born(data["bullets"]))
        if event.type == "bullet.added":
            return made("add", births=born([data]))
        if event.type == "bullet.merged":
            sources = [names[name] for name in data["sources"]]
            births = born([{key: data[key] for key in ("name", "section", "text")}])
            return made("merge", births=births, bullet=births[0], sources=sources)
        if event.type == "policy.adopted":
            return made("policy", counting=data["counting"])
        if event.type == "reflection.completed":
            return made("completed")
        if event.type == "evidence.retracted":
            return made("retract")
        if event.type == "bullet.tagged":
            tag = data.get("tag") if data.get("disposition") == "counted" else "none"
            return made("tag", bullet=names.get(data.get("name") or "", ""), tag=tag)
        if event.type == "bullet.recounted":
            since = person.keys.get(data["since"], data["since"]) if "since" in data else ""
            former = (data.get("baseline_helpful", 0), data.get("baseline_harmful", 0))
            counters = data["helpful"], data["harmful"]
            return made(
                "recount", bullet=names[data["name"]], counters=counters, since=since, former=former
            )
        kinds = {
            "bullet.revised": "revise",
            "bullet.moved": "move",
            "bullet.removed": "remove",
            "bullet.restored": "restore",
            "bullet.unmerged": "unmerge",
        }
        if event.type in kinds:
            said = {key: data[key] for key in ("text", "section") if key in data}
            return made(kinds[event.type], bullet=names[data["name"]], **said)
        return made("other") if event.type in ("session.recorded", "event.redacted") else None

    def _note_id(self, person: Person, event: Recorded, key: str) -> None:
        """No two events that commands created have one id; what follows from its target has the
        target's.
        """
        said = json.dumps([event.type, event.target, event.data], sort_keys=True)
        of, before = self.ids.setdefault(event.event_id, (person.name, said))
        follows = event.type.startswith(("evidence.", "event.", "change."))
        if before != said and event.actor == "human" and not follows:
            self.problems.append(
                (
                    "ids clash",
                    f"{event.type} of {person.name} and {of}: {said[:200]} / {before[:200]}",
                )
            )

    # What people do

    def _live(self, person: Person) -> list[Row]:
        rows = person.machine.rows()
        return [row for row in rows if row.status == "live" and row.text != "[redacted]"]

    def _some(self, person: Person, chance: random.Random, count: int = 1) -> list[Row]:
        live = self._live(person)
        return chance.sample(live, count) if len(live) >= count else []

    def _text(self, person: Person) -> str:
        self.clock += 1
        return f"Rule {self.clock} of {person.name}, made in step {self.number}."

    def _add(self, person: Person, chance: random.Random) -> None:
        text, section = self._text(person), chance.choice(_SLUGS)
        ran, events = self._do(person, "add", section, text)
        self._expect(ran, events, [("bullet.added", {"section": section, "text": text})])

    def _add_alike(self, person: Person, chance: random.Random) -> None:
        """Add a text that another machine may add under the same name, too."""
        section = chance.choice(_SLUGS[:2])
        rows = person.machine.rows()
        number = (
            max((int(row.name[4:]) for row in rows if row.name.startswith(section)), default=0) + 1
        )
        text = f"Alike {section}-{number:03d}"
        if not any(row.text == text for row in rows):
            ran, events = self._do(person, "add", section, text)
            self._expect(ran, events, [("bullet.added", {"section": section, "text": text})])

    def _revise(self, person: Person, chance: random.Random) -> None:
        for row in self._some(person, chance):
            text = self._text(person)
            ran, events = self._do(person, "edit", row.name, text)
            self._expect(ran, events, [("bullet.revised", {"name": row.name, "text": text})])

    def _move(self, person: Person, chance: random.Random) -> None:
        for row in self._some(person, chance):
            section = chance.choice([one for one in _SLUGS if checks.SECTIONS[one] != row.section])
            ran, events = self._do(person, "edit", row.name, "--section", section)
            self._expect(ran, events, [("bullet.moved", {"name": row.name, "section": section})])

    def _remove(self, person: Person, chance: random.Random) -> None:
        rows = self._some(person, chance, chance.choice([1, 1, 2]))
        if rows and chance.random() < 0.4:
            # What was added last: two machines then remove different bullets of one name.
            rows = sorted(
                self._live(person),
                key=lambda row: person.view.acts[_act_of(person.view.names[row.name])],
            )[-1:]
        if rows:
            ran, events = self._do(
                person, "remove", *(row.name for row in rows), "--why", "not wanted"
            )
            self._expect(ran, events, [("bullet.removed", {"name": row.name}) for row in rows])

    def _merge(self, person: Person, chance: random.Random) -> None:
        rows = self._some(person, chance, 2)
        if rows:
            names, text = [row.name for row in rows], self._text(person)
            ran, events = self._do(person, "merge", *names, "--text", text)
            self._expect(ran, events, [("bullet.merged", {"sources": names, "text": text})])

    def _recount(self, person: Person, chance: random.Random) -> None:
        """Write other counters into playbook.json."""
        for row in self._some(person, chance):
            helpful, harmful = chance.randint(0, 4), chance.randint(0, 4)
            if (helpful, harmful) != row.counters:
                self._edit(person, row.name, {"helpful": helpful, "harmful": harmful})

    def _edit_file(self, person: Person, chance: random.Random) -> None:
        """Reword one bullet in playbook.json, and delete another one."""
        rows = self._some(person, chance, 2)
        if rows:
            self._edit(person, rows[0].name, {"text": self._text(person)}, rows[1].name)

    def _edit_both(self, person: Person, chance: random.Random) -> None:
        """Reword a bullet and add one in the same way in the files of two machines, as where git
        carries an edit.
        """
        rows, text, more = self._some(person, chance), self._text(person), self._text(person)
        advice = _advice(person.machine.playbook)
        same = [one for one in self.people if _advice(one.machine.playbook) == advice]
        for one in same if rows else ():
            self._edit(one, rows[0].name, {"text": text}, add=more)

    def _edit(
        self, person: Person, name: str, said: dict[str, object], delete: str = "", add: str = ""
    ) -> None:
        file = person.machine.playbook
        document = json.loads(file.read_text()) if file.exists() else {"sections": {}}
        entries = {
            one.get("name"): one for bullets in document["sections"].values() for one in bullets
        }
        live = {row.name for row in person.machine.rows() if row.status == "live"}
        if set(entries) != live:
            return  # a kill left an older file, which the next command writes again
        entries[name].update(said)
        for section, bullets in document["sections"].items():
            document["sections"][section] = [one for one in bullets if one["name"] != delete]
        if add:
            document["sections"][checks.SECTIONS["oth"]].append({"text": add})
        file.write_text(json.dumps(document, indent=2))
        self.script.append(
            f"cat > {person.name}/.claude/playbook.json <<'END'\n{json.dumps(document)}\nEND"
        )
        self._do(person, "list", kind="file")

    def _markdown(self, person: Person, chance: random.Random) -> None:
        file = self.folder / f"{person.name}-{self.number}.md"
        file.write_text(f"# Rules\n\n- {self._text(person)}\n- {self._text(person)}\n")
        self.script.append(f"printf %s {json.dumps(file.read_text())} > {file}")
        self._do(person, "adopt", str(file), kind="import")

    def _policy(self, person: Person, chance: random.Random) -> None:
        self._do(person, "ledger", "policy", chance.choice(POLICIES), kind="policy")

    def _transcript(self, session: str, cited: Sequence[tuple[str, str]]) -> Path:
        made = Session(session)
        for name, verdict in cited:
            made.cites(name, verdict)
        path = made.write(self.folder / "transcripts" / f"{session}.jsonl")
        self.script.append(f"cat > {path} <<'END'\n{path.read_text()}END")
        return path

    def _session(self, person: Person, chance: random.Random) -> None:
        rows = self._some(person, chance, chance.choice([1, 1, 2]))
        if rows:
            self.clock += 1
            cited = [(row.name, chance.choice(["helpful", "harmful"])) for row in rows]
            path = self._transcript(f"s-{person.name}-{self.clock}", cited)
            self._do(person, "ingest", str(path), kind="session")

    def _shared_session(self, person: Person, chance: random.Random) -> None:
        """Record a session that another machine may record, too."""
        if not self.shared:
            self._session(person, chance)
            return
        path, cited = chance.choice(self.shared)
        live = {row.name for row in person.machine.rows() if row.status == "live"}
        if all(
            name in live and person.view.names.get(name) == self.base[name] for name, _ in cited
        ):
            self._do(person, "ingest", str(path), kind="session")

    def _judge(self, person: Person, chance: random.Random) -> None:
        live = {row.name for row in self._live(person)}
        windows = [e for e in person.machine.events() if e.type == "session.recorded"]
        cited = sorted(
            {
                (e.session or "", name)
                for e in windows
                for name in e.data.get("cited", ())
                if name in live
            }
        )
        if cited:
            session, name = chance.choice(cited)
            verdict = chance.choice(["helpful", "harmful", "neutral"])
            words = ("review", name, verdict, "--session", session, "--why", "I saw it")
            self._do(person, *words, kind="verdict")

    def _undo(self, person: Person, chance: random.Random) -> None:
        """Take back the newest act of this person."""
        before = {row.name: row for row in person.machine.rows()}
        allowed, must_refuse = self._undoable(person)
        ran, events = self._do(person, "undo", kind="undo")
        own = [event for event in events if event.actor == "human" and "merged" not in event.meta]
        if ran.code not in (0, -9):
            return
        targets = {
            person.keys.get(event.target or "", event.target or "") for event in own if event.target
        }
        foreign = targets - frozenset().union(*(group.keys for group in allowed))
        stray = sorted(key for key in foreign if not key.startswith("out of"))
        if must_refuse and own:
            self._note("undo passed an import", f"{person.name}: {sorted(targets)}")
        elif stray:
            self._note("undo of another's act", f"{person.name} undid {stray}, own {allowed[:1]}")
        for group in allowed:
            if targets & group.keys:
                person.undone |= group.keys
                self._must_be_back(person, group, before)

    def _undoable(self, person: Person) -> tuple[list[Group], bool]:
        """What a bare undo may take back, and whether it must refuse."""
        standing = [group for group in person.own if not group.keys & person.undone]
        acts = [group for group in standing if group.kind not in ("session", "redact")]
        changes = [group for group in acts if group.kind != "undo"]
        newest = [groups[-1] for groups in (acts, changes) if groups]
        return newest, bool(newest) and all(group.kind == "import" for group in newest)

    def _must_be_back(self, person: Person, group: Group, before: dict[str, Row]) -> None:
        """The bullets that a change alone had changed are what they were before it."""
        kinds = {self.acts[key].kind for key in group.keys}
        if group.kind != "change" or not kinds <= {"revise", "move", "remove"}:
            return
        after = {row.name: row for row in person.machine.rows()}
        for name, row in after.items():
            if name in before and row != before[name] and name in group.before:
                was = group.before[name]
                fields = ("text", "section", "status")
                is_back = all(getattr(row, one) == getattr(was, one) for one in fields)
                self._must(
                    is_back, "undo gave something else", (f"{person.name}: {was} became {row}")
                )

    def _undo_named(self, person: Person, chance: random.Random) -> None:
        names = [row.name for row in person.machine.rows()]
        if names:
            self._do(person, "undo", chance.choice(names), kind="undo")

    def _undo_position(self, person: Person, chance: random.Random) -> None:
        """Undo any change that the log shows, another machine's and an import's included."""
        kinds = ("bullet.", "playbook.", "policy.", "evidence.")
        events = [
            e
            for e in person.machine.events()
            if e.type.startswith(kinds) and e.type != "bullet.tagged"
        ]
        if events:
            self._do(person, "undo", str(chance.choice(events).position), kind="undo")

    def _undo_session(self, person: Person, chance: random.Random) -> None:
        sessions = sorted(
            {event.session or "" for event in person.machine.events() if event.session}
        )
        if sessions:
            self._do(person, "undo", chance.choice(sessions), "--why", "a test run", kind="undo")

    def _redact(self, person: Person, chance: random.Random) -> None:
        """Erase a bullet's text; a text that two machines may have added is what makes their
        bullets one, and stays.
        """
        texts = [row.text for row in self._live(person) if not row.text.startswith("Alike")]
        if texts:
            elsewhere = [text for text in texts if text in self.erased]
            text = chance.choice(elsewhere if elsewhere and chance.random() < 0.6 else texts)
            self.erased.append(text)
            _, events = self._do(
                person,
                "redact",
                "--where",
                text,
                "--why",
                "a person is named",
                "--yes",
                kind="redact",
            )
            if any(event.type == "event.redacted" for event in events):
                acts = [key for key in person.view.acts if text in self._texts(person, key)]
                act = Act(f"redact {self.clock} {text}", "redact", {"text": text, "acts": acts})
                self.acts[act.key] = act
                person.view.acts[act.key] = self.clock

    def _texts(self, person: Person, key: str) -> list[str]:
        """The texts of bullets that an act says."""
        data = self.acts[key].data
        born = [person.view.births[birth].text for birth in data.get("births", ())]
        return [*born, *([data["text"]] if "text" in data else [])]

    def _proposal(self, person: Person, chance: random.Random) -> None:
        """Let duplicates be proposed, and decide on it."""
        rows = self._some(person, chance)
        if not rows:
            return
        slug = rows[0].name[:3]
        self._do(person, "add", slug, rows[0].text.replace("made", "always made"))
        self._do(person, "review", "find", kind="proposal")
        ran = person.machine.run("review", "--json", quiet=True)
        waiting = json.loads(ran.out)["proposals"] if ran.code == 0 else []
        if waiting:
            how = chance.choice(["approve", "reject"])
            id_ = str(chance.choice(waiting)["id"])
            self._do(person, "review", how, id_, kind="change")

    def _backup(self, person: Person, chance: random.Random) -> None:
        if not person.machine.url and person.machine.head():
            file = self.folder / f"{person.name}-{self.number}.backup"
            ran = person.machine.run("ledger", "backup", str(file))
            self._must(ran.code == 0, "a backup failed", ran.err)
            self._catch_up(person)
            person.backup, person.backup_file = person.copy(), file

    def _restore(self, person: Person, chance: random.Random) -> None:
        """Put an earlier copy in the place of the ledger; its lost acts may come back from the
        person's own copy.
        """
        if person.backup is None or person.backup_file is None:
            self._backup(person, chance)
            return
        lost = person.copy()
        person.is_behind = True
        self.restores += 1
        ran = person.machine.run("ledger", "restore", str(person.backup_file), "--force")
        self._must(ran.code == 0, "a restore failed", ran.err)
        was = person.backup.copy()
        person.view, person.keys, person.own = was.view, was.keys, was.own
        person.undone, person.seen, person.chains = was.undone, was.seen, was.chains
        found = [event.chain for event in person.machine.events()]
        is_copy = found[: len(person.chains)] == person.chains
        self._must(is_copy, "a restore gave another ledger", f"{len(found)} {len(person.chains)}")
        for file in [
            word.strip("`") for word in ran.err.split() if word.strip("`").endswith(".ndjson")
        ]:
            if chance.random() < 0.5:
                self._import_file(person, file, lost)
            # As the message asks; until then `verify` names what is missing.
            Path(file).unlink(missing_ok=True)
            self.script.append(f"rm {file}")

    # Exchange

    def _export(self, person: Person) -> Path:
        """The machine's ledger as a file; a ledger that has not grown is not written again."""
        self._catch_up(person)
        file = self.folder / f"{person.name}-{len(person.chains)}-{self.restores}.ndjson"
        if file.exists():
            return file
        ran = person.machine.run("export", "--format", "ndjson", quiet=True)
        self._must(ran.code == 0, "an export failed", ran.err)
        file.write_text(ran.out)
        self._catch_up(person)
        self.script.append(f"{person.name} export --format ndjson > {file}")
        return file

    def _import(self, person: Person, chance: random.Random) -> None:
        other = chance.choice([one for one in self.people if one is not person])
        if other.machine.head():
            self._take_in(person, other, is_bold=chance.random() < 0.7)

    def _take_in(self, person: Person, other: Person, *, is_bold: bool = True) -> bool:
        """Import another machine's ledger; whether that brought anything."""
        file, head = self._export(other), other.chains[-1] if other.chains else ""
        added = self._import_file(person, str(file), other, is_bold=is_bold)
        if added is not None:
            person.seen[other.name] = head
        return bool(added)

    def _import_file(
        self, person: Person, file: str, other: Person, *, is_bold: bool = True
    ) -> int | None:
        """Import an export; how many events that appended, None where a killed import left
        everything as it was.
        """
        was_empty = not person.machine.head()
        known = other.copy()
        foreign = known.keys.keys() if was_empty or set(person.chains) < set(known.chains) else ()
        words = ["import", file, *(["--rename"] if is_bold else [])]
        ran, events = self._do(person, *words, kind="import", foreign=foreign)
        if ran.code == 1 and not is_bold and "--rename" in ran.err:
            self._must(not events, "a refused import wrote", str(events[:3]))
            ran, events = self._do(
                person, "import", file, "--rename", kind="import", foreign=foreign
            )
        if ran.is_killed and not events:
            return self._import_file(person, file, other)
        self._must(
            ran.code in (0, -9),
            "an import failed",
            f"{person.name} imports {other.name}: {ran.err}",
        )
        is_recorded = any(event.type == "ledger.merged" for event in events)
        if is_recorded:
            person.own.append(Group("import", frozenset({f"import {self.number}"}), {}))
        # its own later state, as it was before a restore
        elif events and other.name == person.name:
            person.own, person.undone = known.own, known.undone
        if was_empty:
            person.view, person.keys = known.view, known.keys
        else:
            person.view.learn(known.view)
            for event_id, key in known.keys.items():
                person.keys.setdefault(event_id, key)
        self._name(person, known)
        return len(events)

    def _name(self, person: Person, other: Person) -> None:
        """Find out which names the bullets of another machine got here."""
        play = Play(self.acts, person.view)
        names = person.view.names
        named = {play.bullet_of(birth) for birth in names.values()}
        theirs = {play.bullet_of(birth): name for name, birth in other.view.names.items()}
        for row in person.machine.rows():
            if row.name in names:
                continue
            fitting = [
                key for key in play.bullets if key not in named and play.text(key) == row.text
            ]
            fitting.sort(key=lambda key: (theirs.get(key) != row.name, key))
            if fitting:
                names[row.name] = fitting[0]
                named.add(fitting[0])

    def _exchange(self) -> None:
        """Let every machine import every other one until nothing is new, and compare all of
        them.
        """
        self.script.append("# all machines import each other until nothing is new")
        pairs = [(one, other) for one in self.people for other in self.people if one is not other]
        self.chance.shuffle(pairs)
        if self.chance.random() < 0.6:
            # As people do: one of them collects, the others take that.
            hub = self.chance.choice(self.people)
            pairs.sort(key=lambda pair: (pair[0] is not hub, pair[1] is not hub))
        for _ in range(6):
            news = False
            for person, other in pairs:
                if other.chains and person.seen.get(other.name) != other.chains[-1]:
                    news = self._take_in(person, other) or news
            if not news:
                break
        else:
            raise Broken("exchanges never end", "each of six rounds brought something new")
        self.figures["exchanges"] += 1
        for person in self.people:
            person.is_behind = False
            self._compare(person, is_exchanged=True)
            checks.agrees(person.machine, self.chance, self._must)
        checks.equal([person.machine for person in self.people], self._must)

    # What must hold

    def _note(self, kind: str, details: str) -> None:
        """Remember what must not be, after which the history can go on."""
        self.problems.append((kind, f"step {self.number}: {details[:1500]}"))

    def _must(self, holds: bool, kind: str, details: str) -> None:
        if not holds:
            raise Broken(kind, details[:1500])

    def _expect(
        self, ran: Ran, events: list[Recorded], wanted: list[tuple[str, dict[str, object]]]
    ) -> None:
        """A command did what it was asked for, all of it or nothing."""
        own = [event for event in events if event.actor == "human" and "merged" not in event.meta]
        if ran.is_killed and not own:
            return
        self._must(ran.code in (0, -9), "a command was refused", ran.err)
        is_so = len(own) == len(wanted) and all(
            event.type == type_ and data.items() <= event.data.items()
            for event, (type_, data) in zip(own, wanted, strict=True)
        )
        self._must(is_so, "a command did something else", f"{wanted}: {own}")

    def _compare(self, person: Person, *, is_exchanged: bool = False) -> None:
        """The machine shows what the model says; between exchanges, a count that a merge stated may
        wait for the next merge (moving.md, How a merge decides).
        """
        self._catch_up(person)
        plays = [Play(self.acts, person.view, unites_texts=unites) for unites in (False, True)]
        play = plays[0]
        rows = person.machine.rows()
        text = {row.name: row.text for row in rows}
        told = sorted(
            (
                r.section,
                r.text,
                r.status,
                text.get(r.into or "", "") if r.status == "merged" else "",
                *r.counters,
            )
            for r in rows
        )
        self.figures["compared with the model"] += 1
        if any(told == each.holdings() for each in plays):
            return
        # Of two people's verdicts on one citation, the later one counts.
        if any(each.is_contested and told == each.holdings("last") for each in plays):
            self.figures["verdicts of two people met"] += 1
            return
        if not is_exchanged and [one[:4] for one in told] == [one[:4] for one in play.holdings()]:
            events = person.machine.events()
            stated = [
                e.position
                for e in events
                if e.meta.get("restated") and e.type == "bullet.recounted"
            ]
            if stated and any(
                e.type == "evidence.retracted" and e.position > stated[0] for e in events
            ):
                self.figures["counts that wait for the next merge"] += 1
                return
        raise Broken("other than the model", f"{person.name}: {_difference(told, play.holdings())}")


def _act_of(birth: str) -> str:
    """The key of the act by which a bullet came into being."""
    return birth.rpartition("#")[0]


def _advice(file: Path) -> list[tuple[str, str, str]]:
    """What a playbook.json says, apart from counters."""
    sections = json.loads(file.read_text())["sections"] if file.exists() else {}
    return sorted(
        (one.get("name", ""), section, one["text"])
        for section, bullets in sections.items()
        for one in bullets
    )


def _difference(told: Sequence[object], wanted: Sequence[object]) -> str:
    more, fewer = Counter(told) - Counter(wanted), Counter(wanted) - Counter(told)
    return f"shows {list(more)}, should show {list(fewer)}"


def lines(history: History) -> Iterator[str]:
    """The history as a script of a shell."""
    yield f"# seed {history.seed}"
    yield 'F=$(mktemp -d); cd "$F"; mkdir -p transcripts ' + " ".join(
        f"{name}/.claude home-{name}" for name in NAMES
    )
    for name in NAMES:
        yield (
            f'{name}() {{ (cd "$F/{name}" && HOME="$F/home-{name}" '
            f'CLAUDE_PROJECT_DIR="$F/{name}" reflector "$@"); }}'
        )
    yield from (line.replace(str(history.folder), "$F") for line in history.script)
