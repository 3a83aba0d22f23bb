"""Requirements of the service on its system: importing this fails, in one sentence, where they are not met.

The service runs on POSIX systems; the commands that ask a server, and `core`, run everywhere.
"""

try:
    import fcntl  # noqa: F401  locks of SQLite and of folders
    import resource  # noqa: F401  limits and peaks of memory
except ModuleNotFoundError as error:
    raise ImportError(
        "the server and its workers need Linux, macOS or another POSIX system (on Windows: WSL or a container); the "
        "commands that ask a server, such as `pursuit train FILE --url URL`, work here"
    ) from error
