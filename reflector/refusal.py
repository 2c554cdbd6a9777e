"""The base of the errors that end a command with their own text.

Invariant: it imports nothing, so every layer can use it.
"""


class Refusal(Exception):
    """An error whose text contains the thing, the value and the way out; no traceback follows."""

    #: The exit code of a command that ends with this error: 1 for work that could not be done, 2
    #: for wrong usage or a wrong setting.
    exit_code = 1
