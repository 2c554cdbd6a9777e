"""The part of a session that follows a citation: the evidence for your verdict.

Invariant: a session that was resumed is shown to its end, over all its windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from reflector.reflection.standing import OpenCitation
from reflector.reflection.window import own_messages
from reflector.transcripts.citations import cited_names
from reflector.transcripts.message import Message


def evidence(citation: OpenCitation) -> Iterator[tuple[bool, Message]]:
    """Yield (whether it cites the bullet, message) from the first message that does, to the end of
    the session.

    Raises:
        OSError, UnknownTranscript: a transcript cannot be read.
    """
    has_begun = False
    for window in (citation.window, *citation.later):
        for message in own_messages(window):
            cites = message.role == "assistant" and citation.name in cited_names(message.text)
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


def aftermath(citation: OpenCitation) -> Aftermath:
    """Return a summary of the evidence.

    Raises:
        OSError, UnknownTranscript: a transcript cannot be read.
    """
    summary = Aftermath(resumed=citation.later[0].occurred_at if citation.later else "")
    for cites, message in evidence(citation):
        if cites and not summary.cited:
            summary.cited = message.text
        elif message.origin == "human" and message.text.strip():
            summary.replies.append(message.text)
        summary.calls += len(message.calls)
        summary.errors += sum(result.is_error for result in message.results)
    return summary
