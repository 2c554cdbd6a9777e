"""Sessions for `reflector demo`, written by hand in the shape of Claude Code's transcripts."""
