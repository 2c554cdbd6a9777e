"""Runs the hook: agents' settings call `python -I -S …/reflector/hooks/__main__.py`.

Invariant: this file only imports and calls the hook. Python compiles the main file at each start,
but a module only once, and compiling the hook took a quarter of its time.
"""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])

from reflector.hooks import fast

fast.main()
