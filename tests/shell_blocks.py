"""Blocks of code in a text of Markdown, and the commands in those of a shell."""

import re
import shlex


def blocks(text: str) -> list[tuple[str, str]]:
    """Return language and text of every block of code, fenced or indented."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    indented = re.findall(r"(?<=\n)\n((?:    \S.*\n(?: {5,}\S.*\n)*)+)", f"\n\n{rest}")
    return [*fenced, *(("", re.sub(r"^ {4}", "", block, flags=re.MULTILINE)) for block in indented)]


def commands(block: str) -> list[list[str]]:
    """Return the words of every command of a block, comments left out, one that others are joined to by `&&` apart."""
    found = []
    for line in block.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;<>")
        lexer.whitespace_split = True
        command: list[str] = []
        for word in [*lexer, "&&"]:
            if word in {"&&", ";", "|"}:
                found += [command] if command else []
                command = []
            else:
                command.append(word)
    return found
