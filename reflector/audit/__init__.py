"""Questions about the history, answered as values."""
