"""The base of the errors that end a command with their own text.

Invariant: it imports nothing, so every layer can use it.
"""


class Refusal(Exception):
    """An error whose text names the thing, the value and the way out; no traceback follows."""

    #: The exit code of a command that ends so: 1 for work that could not be done, 2 for a usage or
    #: a setting.
    exit_code = 1
