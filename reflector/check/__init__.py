"""The check of the lines that agents load: the available judges, their price, and the rows of the
answer. `reflector.sessions.checks` reads the sessions and asks about them.
"""
