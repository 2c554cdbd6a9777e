"""A reflection step for somebody's own agent loop, which can be switched off without a trace."""
