"""Columns: a table's cells, and what a column of them is.

Numbers, dates, large integers, levels, codes for missing cells, lookalike letters, row numbers; nothing of files.
"""
