"""Explanations of a model's mean: each column's part of a prediction, shares of its variance, the nearest of its rows.

All follow from the mean as a weighted sum of products of one factor a column, under columns drawn independently.
"""
