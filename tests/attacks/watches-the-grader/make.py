"""Tell the attack where the grader's files lie, as somebody who has seen the machine would know."""

import json


def make(folder, notebook):
    base = str(folder.parents[2])
    text = json.dumps(notebook).replace("/BASE", base)
    (folder / "layernorm.ipynb").write_text(text)
