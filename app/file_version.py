"""A file that somebody else may change, as it was found."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FileVersion:
    """A file as it was found. address: path or URL; version: what changes whenever the file does; partition: columns
    and their values in all rows of it, None a missing one, by the names of the folders that it lies in."""

    address: str
    size: int
    version: str
    partition: tuple[tuple[str, str | None], ...] = ()

    @property
    def name(self) -> str:
        """Return the last part of the address, and before it the folders of the partition."""
        return "/".join(self.address.split("/")[-1 - len(self.partition) :])
