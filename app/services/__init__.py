"""The use cases: one function for each, free of HTTP."""
