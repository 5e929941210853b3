"""Duplicate every cell, and drop half of the ids."""

import json


def make(folder, notebook):
    copies = json.loads(json.dumps(notebook["cells"]))
    for cell in copies[::2]:
        cell.pop("id", None)
        cell["metadata"] = {}
    notebook["cells"] = [c for pair in zip(notebook["cells"], copies, strict=True) for c in pair]
    (folder / "layernorm.ipynb").write_text(json.dumps(notebook))
