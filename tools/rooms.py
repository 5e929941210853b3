"""The house of the code, from its imports: `python -m tools.rooms` renews it in CONTRIBUTING.md."""

from __future__ import annotations

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = {("tests", name) for name in ("attacks", "honest", "host")}  # of tests, not to be imported
BEGIN, END = "<!-- rooms: by `python -m tools.rooms` -->\n```\n", "```\n"


@cache
def modules() -> dict[str, Path]:
    """Dotted name -> file, of every Python file of the repository that is code."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.py"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    found = {}
    for path in map(Path, listed.splitlines()):
        if path.parts[:2] not in DATA and (ROOT / path).is_file():
            parts = path.with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ROOT / path
    return found


@cache
def imported(module: str) -> frozenset[str]:
    """What a module imports, wherever in it: of the project by module, else by package."""
    path = modules()[module]
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join(base + ([node.module] if node.module else []))
            for name in node.names:
                inner = f"{origin}.{name.name}"
                found.add(inner if inner in modules() else origin)
    # Scripts of the book and of the tests import what lies beside them by its bare name.
    beside = ".".join(package)
    return frozenset(
        {f"{beside}.{n}" if f"{beside}.{n}" in modules() else n for n in found} - {module}
    )


def room_of(module: str) -> str:
    """The folder of autograder/ that a module is in, or the package at the top."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "autograder" else parts[0]


@cache
def rooms() -> dict[str, frozenset[str]]:
    """Room -> the rooms that it imports. What lies beside the rooms of autograder/ is no room."""
    folders = {room_of(m) for m, path in modules().items() if m.startswith("autograder.")
               and path.parent.parent == ROOT / "autograder"}  # fmt: skip
    folders = (folders | {"kernel_sanitizer"}) - {"autograder.suites", "autograder.misconceptions"}
    return {
        room: frozenset(
            room_of(name)
            for module in modules()
            if room_of(module) == room
            for name in imported(module)
        ) & folders - {room}
        for room in folders
    }  # fmt: skip


def drawing() -> str:
    """A line for each room, on top those that know most: its name, and whom it knows."""

    @cache
    def floor(room: str) -> int:
        return 1 + max(map(floor, rooms()[room]), default=0)

    def short(room: str) -> str:
        return room.removeprefix("autograder.")

    lines = []
    for room in sorted(rooms(), key=lambda room: (-floor(room), room)):
        knows = sorted(rooms()[room], key=lambda other: (-floor(other), other))
        lines.append(f"{floor(room)}  {short(room):<17} {', '.join(map(short, knows))}".rstrip())
    return "\n".join(lines) + "\n"


def main() -> None:
    path = ROOT / "CONTRIBUTING.md"
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    path.write_text(before + BEGIN + drawing() + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
