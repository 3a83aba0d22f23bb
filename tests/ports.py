"""Ports of loopback for servers that are to start, and to come back, at a known address."""

import socket


def free_port() -> int:
    """Return a port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    """True if a server takes connections at this port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
