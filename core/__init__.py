"""Sparse Gaussian process regression: the numerics of Pursuit, on numpy and scipy alone."""
