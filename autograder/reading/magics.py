"""IPython cells to plain Python with the same lines, so that line numbers stay the learner's.

Nothing is executed and IPython is not imported: its input hooks are one of the attacks.
"""

import ast
import re
import textwrap
import warnings
from functools import lru_cache

_STRIPPED = {"time", "timeit", "capture", "prun"}  # the body is Python that runs in this process
# Possessive, so that a long line of spaces is not tried from each of its spaces.
_PROMPT = re.compile(r"^( *+)(?:>>> ?|\.\.\. ?|In \[\d+\]: ?|\.{3,}: ?)")
_MAGIC = re.compile(r"(%{1,2}[A-Za-z_]|!|\?)")
_ASSIGNED = re.compile(r"([A-Za-z_][\w.]*(?:\s*,\s*[A-Za-z_][\w.]*)*)\s*=\s*(%[A-Za-z_]|!)")
_HELP = re.compile(r"%{0,2}[\w.*\[\]'\"]+\?{1,2}\s*$")
_INSTALL = re.compile(r"(pip3?|conda|mamba|uv)\s+(install|list|show|uninstall|pip)\b")

MAX_BITS = 14_000  # somewhat fewer than the 4300 digits that Python writes
_LONG_INTEGER = re.compile(r"0[xXoObB][0-9a-fA-F_]{3000}")


def parse(source: str) -> ast.Module | None:
    """The syntax tree, or None where Python cannot read the text (for whatever reason)."""
    try:
        return parse_or_raise(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@lru_cache(maxsize=1)  # a cell is looked at twice in a row
def parse_or_raise(source: str) -> ast.Module:
    """The syntax tree, which is not to be changed. Raises what `ast.parse` raises.

    An integer that Python reads, but refuses to write, is a syntax error here in every notation:
    who looks at the tree may write it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\d" in a learner's string is not our warning
        tree = ast.parse(source)
    if _LONG_INTEGER.search(source):
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant):
                continue
            if isinstance(node.value, int) and node.value.bit_length() > MAX_BITS:
                where = ("<unknown>", node.lineno, node.col_offset + 1, None)
                raise SyntaxError("an integer of thousands of digits", where)
    return tree


def to_python(source: str) -> tuple[str | None, str | None]:
    """`(python, notice)`; python is None for a cell that Python does not run, such as `%%bash`."""
    lines = source.split("\n")
    first = _next_line(lines, 0)
    while first < len(lines) and lines[first].lstrip().startswith("%%"):
        match = re.match(r"\s*%%(\w*)", lines[first])
        name = match.group(1) if match else ""
        if name not in _STRIPPED:
            return None, f"the cell starts with %%{name[:20]} and was not run"
        lines[first] = ""
        first = _next_line(lines, first)
    if first < len(lines) and re.match(r"\s*(>>> |In \[\d+\]: )", lines[first]):
        lines = [_PROMPT.sub(r"\1", line, count=1) for line in lines]
    text = "\n".join(lines)
    if parse(text) is not None:
        return text, None
    dedented = textwrap.dedent(text)
    if dedented != text and parse(dedented) is not None:
        return dedented, None
    lines = (dedented if dedented.count("\n") == text.count("\n") else text).split("\n")
    count = _replace_magics(lines)
    if not count:
        return text, None
    return "\n".join(lines), "lines that only IPython or a shell understands were skipped"


def _next_line(lines: list[str], start: int) -> int:
    """Index of the first line from `start` on that is not blank, or `len(lines)`."""
    return next((i for i in range(start, len(lines)) if lines[i].strip()), len(lines))


def _replace_magics(lines: list[str]) -> int:
    """Put `pass` for each IPython statement, in place; a `%` inside a Python statement stays."""
    count = 0
    state = _State()
    swallow = False  # a shell line may go on after a backslash
    for i, line in enumerate(lines):
        if swallow:
            swallow = line.rstrip().endswith("\\")
            lines[i] = ""
            continue
        replaced = _plain(line) if state.at_statement() else None
        if replaced is not None:
            swallow = line.rstrip().endswith("\\")
            lines[i] = line = replaced
            count += 1
        state.feed(line)
    return count


def _plain(line: str) -> str | None:
    """What stands for an IPython line, or None when the line is Python."""
    indent = line[: len(line) - len(line.lstrip())]
    body = line.strip()
    if timed := re.match(r"%time\s+(\S.*)", body):
        return indent + timed.group(1)  # unlike %timeit it binds names in the notebook
    if assigned := _ASSIGNED.match(body):
        names = re.split(r"\s*,\s*", assigned.group(1))
        return f"{indent}{' = '.join(names)} = None"
    if _MAGIC.match(body) or _HELP.match(body) or _INSTALL.match(body):
        return indent + "pass"
    return None


class _State:
    """Just enough of Python's tokens to know whether a line starts a statement."""

    def __init__(self) -> None:
        self.depth = 0
        self.quote = ""  # the open triple quote, or a single one continued by a backslash
        self.continued = False

    def at_statement(self) -> bool:
        return self.depth == 0 and not self.quote and not self.continued

    def feed(self, line: str) -> None:
        self.continued = False
        i = 0
        while i < len(line):
            c = line[i]
            if self.quote:
                if c == "\\":
                    i += 2
                    continue
                if line.startswith(self.quote, i):
                    i += len(self.quote)
                    self.quote = ""
                    continue
            elif c == "#":
                break
            elif c in "\"'":
                self.quote = c * 3 if line.startswith(c * 3, i) else c
                i += len(self.quote)
                continue
            elif c in "([{":
                self.depth += 1
            elif c in ")]}":
                self.depth = max(0, self.depth - 1)
            elif c == "\\" and i == len(line) - 1:
                self.continued = True
            i += 1
        if len(self.quote) == 1 and not line.endswith("\\"):
            self.quote = ""  # an unclosed string ends with its line
