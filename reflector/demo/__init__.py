"""Sessions for `reflector demo`, written by hand in the format of Claude Code's transcripts."""
