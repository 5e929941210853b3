"""Flip all nbgrader metadata."""

import json


def make(folder, notebook):
    for number, cell in enumerate(notebook["cells"]):
        fields = cell["metadata"].get("nbgrader", {})
        for name in ("grade", "solution", "locked", "task"):
            fields[name] = not fields.get(name, False)
        fields |= {"points": 1000, "grade_id": f"cell-{number}", "schema_version": 99, "score": 20}
        cell["metadata"] = {"nbgrader": fields, "deletable": True, "tags": ["graded", "full-marks"]}
    (folder / "layernorm.ipynb").write_text(json.dumps(notebook))
