"""API keys: tokens, who calls, the keys as each process knows them, limits over all processes, use, administration.

Everything that changes something takes the `Caller`, who is checked against a model's name and written into the log.
"""
