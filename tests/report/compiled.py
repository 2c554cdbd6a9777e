"""Templates of the report, compiled once in a process instead of once for each page."""

from functools import partial
from typing import ClassVar

import jinja2
import pytest

from reflector.report import html


class Compiled(jinja2.BytecodeCache):
    """The compiled templates, each as long as its text stays the same."""

    kept: ClassVar[dict[str, bytes]] = {}

    def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        if bucket.key in self.kept:
            bucket.bytecode_from_string(self.kept[bucket.key])

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        self.kept[bucket.key] = bucket.bytecode_to_string()


def keep_compiled(patched: pytest.MonkeyPatch) -> None:
    """Let every page use the compiled templates."""
    environment = partial(jinja2.Environment, bytecode_cache=Compiled())
    patched.setattr(html.jinja2, "Environment", environment)
