"""Runs the hook: `python -I -S …/reflector/hooks/__main__.py`, which is what the agent's settings
call.

Invariant: this file only leads to the hook. Python compiles the file that it runs at each start and
a module once; compiling the hook took a quarter of its time.
"""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])

from reflector.hooks import fast

fast.main()
