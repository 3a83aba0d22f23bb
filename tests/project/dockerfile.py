"""A small reading of Dockerfiles: instructions in order, continuation lines joined."""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """`word` in capitals, `rest` as written; `stage` counts the FROM lines, from 0."""

    word: str
    rest: str
    stage: int

    @property
    def words(self) -> list[str]:
        """The arguments: a JSON list, or split as a shell would."""
        return json.loads(self.rest) if self.rest.startswith("[") else shlex.split(self.rest)


def read(path: Path) -> list[Instruction]:
    """The instructions of a Dockerfile."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    found: list[Instruction] = []
    stage = -1
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        if not word or word.startswith("#"):
            continue
        stage += word.upper() == "FROM"
        found.append(Instruction(word=word.upper(), rest=" ".join(rest.split()), stage=stage))
    return found
