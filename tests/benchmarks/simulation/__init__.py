"""Simulation of a training on a cluster that is not there, from parts measured on the machine that is.

`measure` and `trace` measure `parts`, `plan` makes steps of them, `events` simulates, `report` says what came out.
"""
