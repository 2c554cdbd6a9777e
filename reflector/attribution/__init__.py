"""Who changed a file: a tool call of a session, git, you, or unknown."""
