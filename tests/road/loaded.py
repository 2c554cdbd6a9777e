"""Loads the whole program and compiles its expressions at import, for a server that forks
processes to kill.
"""

from tests.campaign.machines import preload

preload()
