"""Write the notebook as nbformat 3."""

import json


def make(folder, notebook):
    cells = []
    for cell in notebook.pop("cells"):
        text = cell.pop("source")
        key = "input" if cell["cell_type"] == "code" else "source"
        cells.append(
            {"cell_type": cell["cell_type"], key: text, "language": "python", "metadata": None}
        )
    notebook |= {
        "nbformat": 3,
        "nbformat_minor": -1,
        "worksheets": [{"cells": cells, "metadata": []}],
        "metadata": {"kernelspec": {"name": "bash"}, "language_info": {"name": "R"}, "name": 7},
    }
    (folder / "layernorm.ipynb").write_text(json.dumps(notebook))
