"""The part of a session that follows a citation: the evidence for your verdict.

Invariant: a session that was resumed is shown to its end, over all its windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from reflector.events.event import Event
from reflector.reflection.window import own_messages
from reflector.transcripts.citations import cited_names
from reflector.transcripts.message import Message


def evidence(windows: Iterable[Event], name: str) -> Iterator[tuple[bool, Message]]:
    """Yield (whether it cites a bullet, message) from the first message that does, to the end of
    the session.

    windows  the one that cites the bullet, and the later ones of its agent

    Raises:
        OSError, UnknownTranscript: a transcript cannot be read.
    """
    has_begun = False
    for window in windows:
        for message in own_messages(window):
            cites = message.role == "assistant" and name in cited_names(message.text)
            has_begun = has_begun or cites
            if has_begun:
                yield cites, message


@dataclass(slots=True)
class Aftermath:
    """A citation and the messages after it, for a screen.

    cited    the words of the agent that cite the bullet
    replies  your messages after them
    calls    the agent's calls, and the `errors` among their results
    resumed  when the session was first resumed; "" if it was not
    """

    cited: str = ""
    replies: list[str] = field(default_factory=list)
    calls: int = 0
    errors: int = 0
    resumed: str = ""


def aftermath(windows: Sequence[Event], name: str) -> Aftermath:
    """Return a summary of the evidence; the arguments are as for `evidence`.

    Raises:
        OSError, UnknownTranscript: a transcript cannot be read.
    """
    summary = Aftermath(resumed=windows[1].occurred_at if len(windows) > 1 else "")
    for cites, message in evidence(windows, name):
        if cites and not summary.cited:
            summary.cited = message.text
        elif message.origin == "human" and message.text.strip():
            summary.replies.append(message.text)
        summary.calls += len(message.calls)
        summary.errors += sum(result.is_error for result in message.results)
    return summary
