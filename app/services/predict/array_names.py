"""Names of the arrays of an answer: of several targets the first one's are plain, the others' have their place."""

_PLACE = "\x1f"
"""Between the name of an array and the place of its target: no name has it."""


def of_target(name: str, place: int) -> str:
    """Return the name of an array of the target of this place, from 0."""
    return f"{name}{_PLACE}{place}" if place else name


def target_of(name: str) -> tuple[str, int]:
    """Return the name and the place of the target that `of_target` was given."""
    base, _, place = name.partition(_PLACE)
    return base, int(place or 0)
