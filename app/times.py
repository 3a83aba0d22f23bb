"""Times as answers have them."""

from datetime import UTC, datetime


def rfc3339(seconds: float | None) -> str | None:
    """Seconds since 1970 as a time in UTC, to the millisecond."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
