"""`python -m app.cli` is `pursuit`."""

from app.cli import main

main()
