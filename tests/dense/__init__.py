"""Oracles: the slow, obvious version of everything in `core`, with n x n matrices and explicit inverses.

They share no code with `core`. Where a fast formula and an oracle disagree, the oracle is the definition.
"""
