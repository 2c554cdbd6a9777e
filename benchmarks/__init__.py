"""Every figure that the README quotes, measured beside its floor by one command: `python -m
benchmarks`.
"""
