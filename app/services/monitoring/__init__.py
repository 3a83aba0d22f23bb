"""Drift: what models are asked and answer, day by day, against what they were trained on, and how the truth came out.

The profile is made in training and lies with the model; summaries are counts, which add up over processes and days.
"""
