"""The Gaussian process before any approximation.

The kernel with its value and slope, theta and its layout, training rows, the exact process on a few of them.
"""
