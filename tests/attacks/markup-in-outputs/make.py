"""Fill every place of a notebook that a page might show with live markup."""

import json


def make(folder, notebook):
    live = "<script>alert(1)</script><img src=x onerror=alert(1)><svg onload=alert(1)></svg>"
    data = {
        "text/html": live,
        "image/svg+xml": live,
        "application/javascript": "alert(1)",
        "text/markdown": f"[x](javascript:alert(1)) {live}",
        "text/latex": live,
        "text/plain": live,
        "application/vnd.jupyter.widget-view+json": {"model_id": live},
    }
    for cell in notebook["cells"]:
        cell["metadata"]["tags"] = [live]
        if cell["cell_type"] == "code":
            cell["outputs"] = [
                {"output_type": "display_data", "metadata": {}, "data": data},
                {"output_type": "error", "ename": live, "evalue": live, "traceback": [live]},
            ]
        else:
            cell["source"] = live
            cell["attachments"] = {live: data}
    notebook["metadata"]["title"] = live
    (folder / "layernorm.ipynb").write_text(json.dumps(notebook))
