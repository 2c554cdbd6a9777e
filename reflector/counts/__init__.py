"""Free counts of rules in sessions: the words of a rule that calls contain, the sentences in which
you repeat a rule, and whether its occasion came up. No model is asked.
"""
