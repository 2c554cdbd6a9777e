"""The readers of this package, one module for each agent. `transcripts.readers` finds them."""
