"""Two reflectors compared over recorded sessions: the calls that are made, and the figures."""
