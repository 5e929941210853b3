"""Shows what the attacks did to other graders: `{peers-table}`, from the recorded results.

The file is written by `python -m bench.attacks_on_peers`; nothing is run while the book is built.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

RESULTS = Path("bench") / "results" / "attacks-on-peers.json"
GRADERS = {"ours": "this grader", "nbgrader": "nbgrader", "otter": "otter-grader"}
FINDINGS = {
    "tests_read": "hidden tests read from files",
    "memory_read": "hidden tests found in memory",
    "files_read": "other files read",
    "inputs_shown": "hidden inputs shown to the learner",
    "wrote_outside": "wrote elsewhere",
    "reached_others": "could signal the grader",
}


def outcome(entry: dict[str, Any] | None) -> str:
    """One entry in words."""
    if entry is None:
        return "not tried"
    if entry["held"]:
        return "held" if entry["score"] is not None else "held, no score"
    found = [f"**{entry['gained']:g} points too many**"] if entry["gained"] else []
    found += [f"**{words}**" for key, words in FINDINGS.items() if entry.get(key)]
    if entry["out_of_time"]:
        found.append(f"**did not end** in {entry['seconds']:.0f} s")
    elif entry["batch_stopped"]:
        found.append("**the next submission not graded right**")
    if entry["lost_points"]:
        found.append(
            "no score for right work"
            if entry["score"] is None
            else f"{entry['score']:g} of 20 for right work"
        )
    return ", ".join(found)


def table(data: dict[str, Any]) -> str:
    """The results as MyST text."""
    rows, versions = data["attacks"], data["versions"]
    right = {name for name, row in rows.items() if row["class"] == "control-pass"}
    lines = []
    for key, name in GRADERS.items():
        tried = {name: row[key] for name, row in rows.items() if key in row}
        held = {name for name, entry in tried.items() if entry["held"]}
        lines.append(
            f"- {name} {versions.get(key)}: held against {len(held - right)} of "
            f"{len(tried.keys() - right)} attacks; right work kept its points in "
            f"{len(held & right)} of {len(tried.keys() & right)} cases"
        )
    lines += ["", f"| attack | {' | '.join(GRADERS.values())} |"]
    lines += ["|---" * (1 + len(GRADERS)) + "|"]
    for name, row in rows.items():
        cells = [outcome(row.get(key)) for key in GRADERS]
        about = row["about"].replace("|", "\\|").replace("<", "&lt;").replace("__", "\\_\\_")
        lines.append(f"| `{name}` {about} | {' | '.join(cells)} |")
    lines += ["", f"Run on {data['date']}, Python {versions['python']}. Not tried:", ""]
    lines += [f"- {what}: {why}." for what, why in data["skipped"].items()]
    return "\n".join(lines)


class PeersTable(SphinxDirective):
    """The whole table."""

    def run(self) -> list[nodes.Node]:
        path = Path(self.env.srcdir) / RESULTS
        self.env.note_dependency(str(path))
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise self.error(f"peers-table: {path}: {error}") from error
        return self.parse_text_to_nodes(table(data), allow_section_headings=False)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("peers-table", PeersTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
