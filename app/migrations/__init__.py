"""The history of the database schema, run by Alembic from inside the installed package."""
