"""Telemetry for operators: measures for Prometheus, summed over the processes of a machine, and traces.

It knows no resource of the service: whoever does something says so here, in a microsecond or less.
"""
