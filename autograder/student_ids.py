"""Which names of folders can be student ids: nbgrader finds them again and its database holds them.

One folder in a class with another name, such as "bob " from a renamed archive, is that folder's
trouble alone. It is found out before anything is graded or written.
"""

from __future__ import annotations

import re

LONGEST = 128  # characters, of nbgrader's column
# Control codes, line ends, marks that turn the direction of text, and bytes that are no text: they
# can be in a folder's name, and not in a page, a terminal or a database.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def fault(name: str) -> str | None:
    """Why `name` cannot be a student id, in a few words that do not repeat it; None if it can."""
    if name in ("", ".", ".."):
        return "it is no name of a folder"
    if name.startswith("."):
        return "it begins with a dot, and nbgrader does not see such folders"
    if name != name.strip():
        return "it begins or ends with a blank, which nbgrader takes away"
    if len(name) > LONGEST:
        return f"it has {len(name)} characters, and nbgrader's database holds {LONGEST}"
    if "/" in name or "\\" in name:
        return "it holds a slash or backslash"
    found = _UNPRINTABLE.search(name)
    if found is None:
        return None
    code = ord(found[0])
    if 0xD800 <= code <= 0xDFFF:
        return "it holds bytes that are no text in UTF-8"
    return f"it holds a character that cannot be printed, U+{code:04X}"
