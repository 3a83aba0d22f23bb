"""Explanations of predictions: each column's part of the difference to the average, nearest rows, distance from the
data. What a version needs for them is read when it is first asked; ordinary predictions pay nothing."""
