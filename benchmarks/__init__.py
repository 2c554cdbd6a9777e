"""Every figure in the README, measured beside its floor by one command: `python -m benchmarks`."""
