"""An event-sourced playbook ledger for coding agents, which can explain every helpful and harmful
count.

Invariant: importing `reflector` imports nothing else. Each public name is loaded from its module
when it is first used. So the hook, which runs at the start of every session, does not load the
rest.
"""

#: The public API: name -> the module that defines it.
_PUBLIC = {
    "apply_bullet_tags": "reflector.embed.ace",
    "extract_cited_ids": "reflector.transcripts.citations",
    "extract_json_object": "reflector.judges.answers",
    "format_playbook": "reflector.embed.ace",
    "load_template": "reflector.judges.prompts",
    "load_transcript": "reflector.transcripts.reading",
    "recall": "reflector.embed.lessons.recall",
    "run_reflector": "reflector.embed.ace",
}

__all__ = ["__version__", *_PUBLIC]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> "Any":
    if name == "__version__":
        try:
            from reflector._version import __version__ as version
        except ModuleNotFoundError:  # a checkout that was never built
            version = "1.0.0.dev0"
        return globals().setdefault(name, version)
    if name not in _PUBLIC:
        raise AttributeError(f"module 'reflector' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_PUBLIC[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
