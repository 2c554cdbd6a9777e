"""The command lines of `reflector` and of its hook, as processes of the checkout that the tests are in."""

from __future__ import annotations

import sys
from pathlib import Path

from reflector.hooks.install import SCRIPT

_MAIN = "import sys; sys.path.insert(0, {!r}); sys.argv[0] = 'reflector'; from reflector.__main__ import main; main()"

HOOK = [sys.executable, "-I", "-S", SCRIPT]
REFLECTOR = [sys.executable, "-I", "-c", _MAIN.format(str(Path(__file__).parents[1]))]
