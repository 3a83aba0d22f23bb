"""A training run: from a table and a specification to a model and a report.

Search for theta and basis, refinement, left-out rows and calibration, varying noise, compression, progress.
"""
