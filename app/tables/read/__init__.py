"""Read: an upload's bytes or JSON to a table of cells.

Knows encodings, dialects, sheets, limits and what may be wrong in a file; not what a column means.
"""
