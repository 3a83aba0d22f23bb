"""Choosing basis vectors: one greedy loop, criteria as small functions, and the batch form of it."""
