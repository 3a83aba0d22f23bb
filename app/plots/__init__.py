"""Pictures in SVG, for people: the demo's, and those of a report. Text from the standard library alone.

`chart` has axes and marks, `bars` ranked bars, `predicted` the picture of predictions against what was true.
"""
