"""The documentation for people: Markdown beside this file, and the pages made of it.

`contents` lists the pages and where their text comes from, `pages` makes HTML of it, `fields` writes the page of the
specification's fields from the specification itself.
"""
