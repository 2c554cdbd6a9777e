"""An embedder's agent looks at its own answer, revises it once, and keeps what it learned (parts D and E)."""
