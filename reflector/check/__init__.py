"""The check of the lines that agents load: the judges that would be asked and their price, and the
rows of the answer. The sessions are read and asked about by `reflector.sessions.checks`.
"""
