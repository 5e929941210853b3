"""Fake the outputs of every code cell."""

import json


def make(folder, notebook):
    says = {"verdict": "pass", "points": 20.0, "score": 20.0, "status": "graded"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["execution_count"] = 10**9
            cell["outputs"] = [
                {"output_type": "stream", "name": "stdout", "text": json.dumps(says)},
                {"output_type": "display_data", "metadata": {}, "data": {"application/json": says}},
                {"output_type": "nonsense", "text": [None, 1]},
            ]
    (folder / "layernorm.ipynb").write_text(json.dumps(notebook))
