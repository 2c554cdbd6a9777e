"""Free counts of rules in sessions, without a model: calls that contain words of a rule, sentences
in which you repeat a rule, and whether its occasion came up.
"""
