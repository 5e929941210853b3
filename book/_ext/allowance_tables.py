"""`{grader-packages}` and `{grader-limits}`: what learner code is given, as the grader has it.

Both come from `autograder/testing/allowance.py`, where the grader takes its limits from.
"""

from __future__ import annotations

import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))  # the command that builds the book does not look there

from autograder.reading import notebook  # noqa: E402
from autograder.sandbox import Limits  # noqa: E402
from autograder.testing import allowance  # noqa: E402
from autograder.worker import prints  # noqa: E402


def packages() -> str:
    """The packages with their versions, as MyST text."""
    rows = [f"| `{name}` | {version} |" for name, version in allowance.packages().items()]
    return "\n".join(["| `import` | version |", "|---|---|", *rows])


def limits() -> str:
    """The limits of each assignment, and those of all, as MyST text."""
    rows = ["| assignment | a call | a cell | all cells | the whole notebook | memory |"]
    rows.append("|---|---|---|---|---|---|")
    for path in sorted(allowance.SUITES.glob("*/suite.toml")):
        name = path.parent.name
        b = allowance.budget(name)
        seconds = (b.call_seconds, b.cell_seconds, b.start_seconds, b.submission_seconds)
        times = " | ".join(f"{s:g} s" for s in seconds)
        rows.append(f"| `{name}` | {times} | {b.memory_mib} MiB |")
    all_of_them = Limits()
    rows += [
        "",
        "| in every assignment | at most |",
        "|---|---|",
        f"| prints before you are told to take them out | {prints.LIMIT_KIB} KiB |",
        f"| files written, together | {all_of_them.scratch_mib} MiB |",
        f"| one file | {all_of_them.file_mib} MiB |",
        f"| the notebook file | {notebook.MAX_BYTES >> 20} MiB, {notebook.MAX_CELLS} cells |",
        f"| code | {notebook.MAX_CODE_CHARS} characters, {notebook.MAX_CELL_CHARS} in a cell |",
        f"| open files | {all_of_them.open_files} |",
        f"| processes and threads | {all_of_them.processes} |",
    ]
    return "\n".join(rows)


class _Table(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        for path in (ROOT / "requirements.txt", *allowance.SUITES.glob("*/suite.toml")):
            self.env.note_dependency(str(path))
        return self.parse_text_to_nodes(self.text(), allow_section_headings=False)

    def text(self) -> str:
        raise NotImplementedError


class Packages(_Table):
    """The table of packages."""

    def text(self) -> str:
        return packages()


class LimitsTable(_Table):
    """The tables of limits."""

    def text(self) -> str:
        return limits()


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("grader-packages", Packages)
    app.add_directive("grader-limits", LimitsTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
