"""The database: its engine and clock, every SQL table of the service, and inserts that meet a row that is there.

`jobs` and `storage` do not know each other and both keep rows, so the tables lie here, below either of them.
"""
