"""`reflector judge`: who may judge your sessions, on which terms, and how you change that.

Invariant: `judge` alone changes nothing and sends nothing.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from reflector.cli.app import Place
from reflector.cli.options import agreed, json_option, yes_option
from reflector.cli.output import note, say, table, warn
from reflector.config import (
    APIS,
    CONSENT,
    DEFAULT_API,
    OFFLINE,
    Config,
    load_config,
    place_of,
    users_config,
)
from reflector.extensions import ExtensionError, find_extension
from reflector.judges import consent, offers
from reflector.judges.agent_clients import JUDGES
from reflector.judges.consent import JudgeRefused
from reflector.judges.offers import Candidate, Estimate, Offer
from reflector.judges.registry import described, judge_kind, judge_names, priced
from reflector.prices import price_words
from reflector.reflection.checking import ROOM
from reflector.text.phrases import counted

_VERDICTS = {"helpful", "harmful", "neutral"}
#: The dollars per month that the question offers.
_DOLLARS = 3


class _Judge(click.Group):
    """The group. It recognises a session's id, a judge's name, and a verdict from the time when
    `judge` recorded verdicts.
    """

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand, or raise a usage error that names the intended command."""
        word = args[0]
        match args:
            case _ if word in self.commands or word.startswith("-"):
                return super().resolve_command(ctx, args)
            case [session, name, verdict, *options] if verdict in _VERDICTS:
                words = ["review", name, verdict, "--session", session, *options]
                hint = (
                    "`judge` does not record verdicts; to record your verdict: reflector "
                    f"{shlex.join(words)}"
                )
            case _ if word in judge_names():
                hint = f"to allow this judge: reflector judge allow {word}"
            case _ if re.search(r"\d", word):
                hint = (
                    f"{word!r} is not a command of `judge`; to judge a session: reflector reflect "
                    f"{shlex.quote(word)}"
                )
            case _:
                return super().resolve_command(ctx, args)
        raise click.UsageError(hint, ctx)


@click.group(cls=_Judge, invoke_without_command=True)
@json_option
@click.pass_context
def judge(ctx: click.Context) -> None:
    """List judges for your sessions, with prices.

    A judge reads a session and decides whether each cited rule helped. For each judge, `judge`
    shows the price of judging your last ten sessions. `judge` also shows which company or program
    would receive the text of your sessions. `judge` sends nothing. `judge allow` lets a judge read
    the sessions of all your projects. `judge forbid` ends your permission for a judge.
    """
    if ctx.invoked_subcommand is not None:
        return
    place: Place = ctx.obj
    project = place.folder()
    config = place.project().config
    listed = offers.offers(config, project)
    if place.answers(listed):
        return
    newest = offers.estimate(config)
    if newest.prompts:
        whose = f"{_last_sessions(newest)} in all projects (at most {newest.tokens:,} tokens)"
        say(f"The prices below are for {whose}.")
        say(f"To see the price of judging this project's rules: {place.command('check')}")
    columns = ("judge", "version", "model", "may judge", "price", "text goes to")
    table(columns, [_row(offer) for offer in listed], prose=("text goes to",), whole=True)
    for offer in listed:
        if offer.fault:
            note(f"{offer.name}: {offer.fault}")
    in_force = described(config, project)
    lacks = f"; {in_force.way_out}" if in_force.way_out else ""
    note(f"Judge of this project: {in_force.words}{lacks}")
    note(_next_step(listed))


def _next_step(listed: Sequence[Offer]) -> str:
    """Return how to stop the allowed judges, or else how to allow one."""
    if any(offer.allowed and offer.name not in OFFLINE for offer in listed):
        return "To stop all judges: reflector judge forbid"
    if any(offer.name in JUDGES for offer in listed):
        return "Next: reflector judge allow"
    # If no API is ready, the lines above name its missing key.
    ready = (offer.name for offer in listed if offer.name in APIS and not offer.fault)
    return f"Next: reflector judge allow {next(ready, DEFAULT_API)}"


def _row(offer: Offer) -> tuple[str, ...]:
    price = "free"
    if offer.name not in OFFLINE:
        price = price_words(offer.price) if offer.price is not None else "unknown"
        price = price if offer.tokens else ""
    may_judge = "yes" if offer.allowed else "no"
    return offer.name, offer.version, offer.model, may_judge, price, offer.goes_to


def _last_sessions(newest: Estimate) -> str:
    number = len(newest.prompts)
    return "your last session" if number == 1 else f"your last {counted(number, 'session')}"


@judge.command()
@click.argument("who", required=False)
@yes_option
@click.pass_obj
def allow(place: Place, who: str | None, yes: bool) -> None:
    """Allow a judge to read your sessions.

    WHO is the name of a judge; `reflector judge` lists the names. Without WHO, `judge allow` asks
    you to choose a judge. For each judge, `judge allow` shows the price, and the company or program
    that would receive the text of your sessions. With --yes, `judge allow` allows all of your
    installed agents to judge. Before you allow an agent to judge, reflector checks that the agent
    cannot use tools. reflector runs an allowed agent in the background, with the agent's cheapest
    model. A private file of reflector stores the environment variables that the agent needs to log
    in.
    """
    config = place.project().config
    _refuse_unknown(who, config)
    if who is None and not yes and sys.stdin.isatty():
        if not ask_who(place):
            say(f"No judge reads your sessions.\nTo choose a judge later: {CONSENT}")
        return
    if who in OFFLINE:
        say(f"The judge {who!r} needs no permission, because it sends nothing.")
        return
    _let_in(place, who, yes=yes)
    say("Next: reflector check")


@contextmanager
def one_run(place: Place, name: str | None, price: str = "", *, yes: bool) -> Iterator[bool]:
    """Let an agent judge within this block if the user agrees to this run.

    The agent does not get a lasting permission. Yield whether the user was asked. An allowed agent
    or another judge does not need a question.

    price  of the run in words, for the question
    """
    if name not in JUDGES or name in consent.agreed_clients():
        yield False
        return
    ready, faults = offers.candidates(name, place.folder())
    if not ready:
        raise JudgeRefused(faults[0])
    _show_terms(place, place.project().config, ready)
    title = JUDGES[name].title
    terms = f" ({price})" if price else ""
    question = f"Let {title} read these sessions, only for this command{terms}?"
    agreed(question, f"{title} needs your permission to read sessions", yes=yes)
    with consent.only_now({candidate.name: candidate.terms for candidate in ready}):
        yield True


def ask_who(place: Place) -> bool:
    """Ask the user which judge may read their sessions, and allow that judge.

    Return whether there is a judge now. Nothing is sent before the answer.
    """
    config = place.project().config
    project = place.folder()
    fitting = [offer for offer in offers.offers(config, project) if offer.is_choice]
    if not fitting:
        return False
    newest = offers.estimate(config)
    say("Who may read your sessions to judge whether a rule helped?")
    cells = [_choice(number, offer, newest) for number, offer in enumerate(fitting, start=1)]
    built_in = len(cells) + 1
    cells.append((built_in, "the built-in judge", "free, gives few verdicts", "not sent"))
    table(("", "judge", _last_sessions(newest), "text goes to"), cells)
    say(
        "The price is for the last sessions of all your projects,\nwith at most "
        f"{config.request_tokens:,} tokens of each session.\n`check` has another price, because "
        f"`check` reads only sessions of this project,\nwith at most {ROOM:,} tokens of each "
        "session."
    )
    say("To see how often each judge is right: reflector help judging")
    numbers = [str(number) for number in range(1, built_in + 1)]
    answer = click.prompt(
        f"Choose {', '.join(numbers[:-1])} or {built_in}",
        type=click.Choice(numbers),
        default=str(built_in),
        show_choices=False,
        err=True,
    )
    if int(answer) == built_in:
        return False
    _ask_limits(config, project)
    _let_in(place, fitting[int(answer) - 1].name, yes=True)
    return True


def _choice(number: int, offer: Offer, newest: Estimate) -> tuple[object, ...]:
    """Return the cells of a judge for the question."""
    name = JUDGES[offer.name].title if offer.name in JUDGES else offer.name
    model = f", {offer.model}" if offer.model else ""
    price = price_words(offer.price) if offer.price is not None else "price unknown"
    return number, f"{name}{model}", f"{newest.tokens:,} tokens {price}", offer.goes_to


def _ask_limits(config: Config, project: Path) -> None:
    """Ask for the limits of all projects, and keep the values that differ from the settings."""
    questions = click.prompt(
        "Maximum number of questions to judges a day, in all projects together",
        type=click.IntRange(1),
        default=config.daily_requests or Config().daily_requests,
        err=True,
    )
    dollars = click.prompt(
        "Maximum cost of judges in dollars a month, at list prices",
        type=click.IntRange(1),
        default=config.monthly_dollars or _DOLLARS,
        err=True,
    )
    folders = click.prompt(
        "Folders whose sessions no judge may read, separated by commas (Enter: none)",
        default=", ".join(config.never),
        show_default=bool(config.never),
        err=True,
    )
    never = [folder.strip() for folder in folders.split(",") if folder.strip()]
    offers.keep_limits(config, project, questions=questions, dollars=dollars, never=never)


def _let_in(place: Place, name: str | None, *, yes: bool) -> None:
    """Allow a judge, or all agents without a name, after showing the terms."""
    config = place.project().config
    if name is not None and name in config.judges:
        _allow_extension(place, config, name, yes=yes)
    elif name in APIS:
        _allow_api(place, config, name, yes=yes)
    else:
        _allow_agents(place, config, name, yes=yes)
    say("To stop all judges: reflector judge forbid")
    read_first(place)


def read_first(place: Place) -> None:
    """Start reading your last sessions in the background, if stdin is a terminal."""
    if not sys.stdin.isatty():
        return
    from reflector.project import Project
    from reflector.sessions import first

    project = Project.at(place.folder())  # with the present settings
    due = first.due_reading(project)
    if due is None:
        return
    first.start(project, due)
    say(
        f"The judge now reads your last {counted(len(due.sessions), 'session')} and checks "
        f"the {counted(due.rules, 'rule')} of {due.files[0]}"
        f"{' and other files' if len(due.files) > 1 else ''}. This takes about "
        f"{counted(due.minutes, 'minute')}."
    )


def _refuse_unknown(who: str | None, config: Config) -> None:
    """Refuse an unknown name. The settings name the judges of other packages."""
    names = [name for name in (*judge_names(), *config.judges) if name != "agent"]
    if who is not None and who not in names:
        raise click.UsageError(f"{who!r} is not a judge; the judges are {', '.join(names)}")


def _allow_agents(place: Place, config: Config, who: str | None, *, yes: bool) -> None:
    project = place.folder()
    ready, faults = offers.candidates(who, project)
    for fault in faults:
        warn(fault)
    if not ready:
        raise JudgeRefused(
            f"no agent on this machine can judge; install one of {', '.join(JUDGES)}, or set an "
            "API key and run `reflector judge allow anthropic`"
        )
    _show_terms(place, config, ready)
    who_asks = " and ".join(candidate.title for candidate in ready)
    _ask(config, who_asks, "your agents may judge only with your permission", yes=yes)
    offers.allow_agents(ready, project)
    say(f"{who_asks} may judge from the next session on.")


def _show_terms(place: Place, config: Config, ready: Sequence[Candidate]) -> None:
    """Show each agent with its price and the variables of its environment."""
    newest = offers.estimate(config)
    for candidate in ready:
        model = JUDGES[candidate.name].model or "its default model"
        price = priced(config, candidate.name, newest.prompts)
        if price is not None and newest.prompts:
            model += f", {price_words(price)} for {_last_sessions(newest)}"
        say(
            f"{candidate.title} {candidate.version}, {candidate.terms.path}: {model}. reflector "
            "starts this agent with these environment variables:"
        )
        for line in consent.shown(candidate.terms):
            say(f"  {line}")
        for variable in consent.left_out(candidate.name, project=place.folder()):
            note(
                f"  {variable} contains a folder of this project or the working folder, so "
                "the judge starts without this variable"
            )


def _allow_extension(place: Place, config: Config, name: str, *, yes: bool) -> None:
    try:
        extension = find_extension("judges", name)
    except ExtensionError as error:
        raise JudgeRefused(str(error)) from error
    say(f"{extension.words}, {extension.location}: {extension.entry_point.value}")
    _ask(config, name, "a judge of another package may judge only with your permission", yes=yes)
    offers.allow_extension(extension, place.folder())
    say(f"{name} may judge from the next session on.")


def _allow_api(place: Place, config: Config, name: str, *, yes: bool) -> None:
    offer = offers.api_offer(name, config, place.folder(), offers.estimate(config))
    title = judge_kind(name).title
    words = price_words(offer.price) if offer.price is not None else "an unknown price"
    say(f"{title}: {offer.model}, {words} for your last sessions")
    say(f"Your text goes to: {offer.goes_to}")
    if offer.fault:
        raise JudgeRefused(f"{name}: {offer.fault}")
    _ask(config, title, f"{title} needs your permission to judge", yes=yes)
    offers.allow_api(name, config, place.folder())
    say(f"{title} may judge from the next session on.")


def _ask(config: Config, title: str, otherwise: str, *, yes: bool) -> None:
    """Ask the user to agree, and show the tokens of their last sessions and the budget."""
    limits = [f"{config.daily_requests} questions a day"] if config.daily_requests else []
    limits += [f"{config.monthly_tokens:,} tokens a month"] if config.monthly_tokens else []
    budget = f", at most {' and '.join(limits)}" if limits else ""
    question = f"Let {title} judge your sessions{budget}{estimate_words(config)}?"
    agreed(question, otherwise, yes=yes)


def estimate_words(config: Config) -> str:
    """Return the tokens of the user's last sessions, in brackets; "" if there are none."""
    newest = offers.estimate(config)
    if not newest.prompts:
        return ""
    return f" ({_last_sessions(newest)} in all projects: at most {newest.tokens:,} tokens)"


def end_first(project: Path) -> None:
    """Remove the order of an ended first reading.

    Also note a judge that is set in another place than your own file.
    """
    from reflector.sessions.order import live_order, remove_order

    if live_order(project) is None:
        remove_order(project)
    config = load_config(project)
    if config.asks_model and config.layer("backend") != "user":
        where = place_of(config, "backend", project)
        warn(
            f"{where} still sets the judge {config.backend!r}; to stop this judge too, remove the "
            "setting"
        )


@judge.command()
@click.argument("who", required=False)
@click.pass_obj
def forbid(place: Place, who: str | None) -> None:
    """Stop a judge from reading your sessions.

    WHO is the name of a judge; `reflector judge` lists the names. Without WHO, `judge forbid`
    forbids all judges that send text. If you forbid all judges, only the built-in judge `rules`
    still gives verdicts. The judge `rules` uses no model and sends nothing. Earlier verdicts of a
    forbidden judge still count.
    """
    _refuse_unknown(who, users_config())
    if who in OFFLINE:
        raise click.UsageError(f"you cannot forbid the judge {who!r}, because it sends nothing")
    was_allowed = offers.forbid(who)
    if who is not None:
        verb = "no longer judges" if was_allowed else "was not allowed to judge"
        say(f"{who} {verb} your sessions.")
    elif was_allowed:
        say("No model reads your sessions now. Only the built-in judge `rules` gives verdicts.")
    else:
        say("No judge was allowed to read your sessions.")
    end_first(place.folder())
