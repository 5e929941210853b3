"""Integers that Python reads and does not write: whoever prints the syntax tree fails."""

import json

TWICE = "def layer_norm(x, weight, bias, eps):\n    return x, 0x{}\n"


def make(folder, notebook):
    cells = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    own = [c for c in cells if c["metadata"].get("nbgrader", {}).get("grade_id") == "layer_norm"]
    own[0]["source"] = TWICE.format("f" * 5000)
    at = notebook["cells"].index(own[0])
    notebook["cells"].insert(at, dict(own[0], id="again", source=TWICE.format("e" * 5000)))
    (folder / "layernorm.ipynb").write_text(json.dumps(notebook))
