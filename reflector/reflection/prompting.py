"""The reflector's question: template, playbook, transcript and cited IDs as one prompt.

Invariant: a prompt fits its limit, and the data cannot leave its place. Secrets are removed before
anything is sent, a bullet or a turn cannot close the tag around it, and the template is filled once. The same
window, playbook and template give the same prompt, byte for byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence

from reflector.reflection.excerpt import estimate_tokens, excerpt
from reflector.reflection.prompts import Template
from reflector.reflection.protocol import BackendError, Prompt
from reflector.text.bounds import visible
from reflector.text.secrets import redact
from reflector.transcripts.message import Message

#: Room for the tags and for what an estimate of a whole differs from those of its parts, in tokens.
_MARGIN = 500
_LEAST_TRANSCRIPT = 2_000
#: A tag of the packaged template, opened or closed.
_TAG = re.compile(r"<(?=/?(?:playbook|session|cited_ids)\b)", re.IGNORECASE)


def compose(
    template: Template,
    playbook: str,
    cited: Sequence[str],
    messages: Callable[[], Iterable[Message]],
    limit: int,
) -> Prompt:
    """Return the prompt for a window, within `limit` estimated tokens.

    `playbook` is the bullets as text. Raises BackendError where they leave no room for a session.
    """
    values = {
        "playbook": _TAG.sub("&lt;", redact(visible(playbook))),
        "cited_ids": json.dumps(list(cited), ensure_ascii=False),
        "transcript": "",
    }
    rest = estimate_tokens(template.fill(values)) + _MARGIN
    room = limit - rest
    if room < _LEAST_TRANSCRIPT:
        said = (
            f"template and playbook take about {rest:,} of {limit:,} tokens, which leaves no room for a session; "
            "raise request_tokens or prune the playbook"
        )
        raise BackendError(said, stage="request", attempts=0)
    # Before a text is cut: of half a key no rule knows what it was.
    shown = excerpt(lambda: map(_redacted, messages()), frozenset(cited), room)
    transcript = _TAG.sub("&lt;", redact(visible(json.dumps(list(shown.turns), indent=2, ensure_ascii=False))))
    before, after = template.split(values | {"transcript": transcript}, "transcript")
    tokens = estimate_tokens(before) + estimate_tokens(after)
    return Prompt(before, after, template.sha256, tokens, shown.left_out)


def _redacted(message: Message) -> Message:
    """The message without secrets. The names of a call's arguments give secrets away, so these are redacted as one."""
    calls = []
    for call in message.calls:
        given = json.dumps(call.input, ensure_ascii=False)
        cleared = redact(visible(given))
        calls.append(call if cleared == given else call._replace(input=json.loads(cleared)))
    return message._replace(
        text=redact(visible(message.text)),
        thinking=redact(visible(message.thinking)),
        calls=tuple(calls),
        results=tuple(result._replace(text=redact(visible(result.text))) for result in message.results),
    )
