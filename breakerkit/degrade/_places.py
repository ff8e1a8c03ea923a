"""Where in a file of rules something stands: looked for only when there is something wrong with it."""

from __future__ import annotations

import json
import re

#: The head of a table in the list of rules, as TOML has it.
_HEAD = re.compile(r"^[ \t]*\[\[[ \t]*(?:rules|'rules'|\"rules\")[ \t]*\]\]", re.MULTILINE)


def where(text: str, suffix: str, count: int, number: int, key: str | None) -> str:
    """Return the line of a rule, or of a key in it, and which rule it is.

    Args:
        text: the whole file.
        suffix: ``".toml"`` or ``".json"``.
        count: how many rules it has.
        number: which of them, from 0.
        key: the key that is wrong; ``None`` if it is the rule as a whole.
    """
    starts = _starts_json(text) if suffix == ".json" else _starts_toml(text)
    if len(starts) != count:
        return f"rule {number + 1}"  # written in a way we cannot follow, such as all in one line
    start = starts[number]
    end = starts[number + 1] if number + 1 < count else len(text)
    if key is not None:
        pattern = (
            rf'"{re.escape(key)}"\s*:'
            if suffix == ".json"
            else rf"^[ \t]*[\"']?{re.escape(key)}[\"']?[ \t]*="
        )
        found = re.compile(pattern, re.MULTILINE).search(text, start, end)
        if found is not None:
            start = found.end()
    return f"line {text.count(chr(10), 0, start) + 1} (rule {number + 1})"


def _starts_toml(text: str) -> list[int]:
    """Return where the rules begin, each with a head of its own."""
    return [found.end() for found in _HEAD.finditer(text)]


def _starts_json(text: str) -> list[int]:
    """Return where the rules begin: the list of them is the first list of a file that parses."""
    decoder, starts = json.JSONDecoder(), []
    at = _past_blanks(text, text.index("[") + 1)
    while text[at] != "]":
        starts.append(at)
        _, at = decoder.raw_decode(text, at)
        at = _past_blanks(text, at)
        at = _past_blanks(text, at + 1) if text[at] == "," else at
    return starts


def _past_blanks(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at
