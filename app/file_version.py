"""A file that somebody else may change, as it was found."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FileVersion:
    """A file as it was found. address: path or URL; version: what changes whenever the file does."""

    address: str
    size: int
    version: str

    @property
    def name(self) -> str:
        """Return the last part of the address."""
        return self.address.rpartition("/")[2]
