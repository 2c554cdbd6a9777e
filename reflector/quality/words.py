"""The lists of words that an answer is searched for: data, which a person's own file overrides.

Invariant: a list is searched as it stands in `words.toml`. A file that cannot be read, that names an unknown list or
holds anything but texts is refused, with its name, before anything is searched.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path

from reflector.files import read_bounded
from reflector.locate import parse_toml, user_settings
from reflector.mistakes import Mistake
from reflector.resources import resource_dir

_MOST_BYTES = 64 * 1024
_NAME = "words.toml"


class WordsError(Mistake):
    """A file of word lists that cannot be used; the text names the file, the list and the way out."""


@dataclass(frozen=True, slots=True)
class Words:
    """The lists, in lower case. Each word is searched for as a part of the text."""

    failure_patterns: tuple[str, ...] = ()
    assertive_uncertainty: tuple[str, ...] = ()
    debug_context: tuple[str, ...] = ()
    root_cause: tuple[str, ...] = ()
    verification: tuple[str, ...] = ()
    looking: tuple[str, ...] = ()


def default_words() -> Words:
    """Return the packaged lists, with those of `reflector/prompts/words.toml` in the user's configuration folder in
    their place. Raises WordsError."""
    own = Path(user_settings(), "prompts", _NAME)
    packaged = _packaged()
    return read_words(own, packaged) if os.path.lexists(own) else packaged


def read_words(path: Path, base: Words) -> Words:
    """Return the lists of a file, and those of `base` that the file does not name. Raises WordsError."""
    try:
        given = parse_toml(read_bounded(path, _MOST_BYTES).decode("utf-8-sig"))
    except OSError as error:
        raise WordsError(f"{path}: cannot be read ({error.strerror}); correct or remove the file") from None
    except ValueError as error:
        raise WordsError(f"{path}: is not TOML ({error}); correct or remove the file") from None
    known = [one.name for one in fields(Words)]
    for name, words in given.items():
        if name not in known:
            raise WordsError(f"{path}: {name!r} is not a word list; the lists are {', '.join(known)}")
        if not isinstance(words, list) or not all(isinstance(word, str) and word for word in words):
            raise WordsError(f'{path}: {name} must be a list of texts, such as ["i cannot"]')
    return replace(base, **{name: tuple(word.lower() for word in words) for name, words in given.items()})


@lru_cache(maxsize=1)
def _packaged() -> Words:
    return read_words(resource_dir("prompts") / _NAME, Words())
