"""The readers of this package, one module an agent; `transcripts.readers` finds them here."""
