"""Claim points in every cell, and one that JSON has no word for."""

import json


def make(folder, notebook):
    claims = [1000, -5, "20", None, [20], {"score": 20}, 1e300, True]
    for number, cell in enumerate(notebook["cells"]):
        nbgrader = cell["metadata"].setdefault("nbgrader", {"schema_version": 3})
        nbgrader |= {"points": claims[number % 8], "grade": True, "score": 20, "verdict": "pass"}
    notebook["metadata"] |= {"score": 20, "max_score": 20, "nbgrader": {"score": 20}}
    notebook["cells"][0]["metadata"]["nbgrader"]["points"] = float("nan")
    (folder / "layernorm.ipynb").write_text(json.dumps(notebook))
