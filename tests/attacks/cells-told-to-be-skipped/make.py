"""Tag every cell; make check cells text."""

import json


def make(folder, notebook):
    tags = ["otter_ignore", "skip-execution", "raises-exception", "remove-cell", "nbgrader-ignore"]
    for cell in notebook["cells"]:
        cell["metadata"]["tags"] = tags
        cell["metadata"]["otter"] = {"ignore": True}
        if cell["metadata"].get("nbgrader", {}).get("grade_id", "").startswith("test_"):
            cell["cell_type"] = "raw"
    (folder / "layernorm.ipynb").write_text(json.dumps(notebook))
