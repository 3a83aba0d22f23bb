"""The entry point of every process: `pursuit_gp`, one file that is installed twice.

Here, where `app.launch` finds it, and at the top under its own name, where the `pursuit` command does.
"""
