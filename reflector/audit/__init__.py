"""Questions about the history, answered with values."""
