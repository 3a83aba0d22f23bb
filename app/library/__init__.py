"""The package `pursuit` for notebooks and programs: a client of the service, models without one, an estimator.

It is installed at the top, under its own name; it stands on `app` and `core` without claiming these names.
"""
