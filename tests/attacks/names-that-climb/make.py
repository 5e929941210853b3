"""Rename the notebook to something that no page may show as it is."""

import os


def make(folder, notebook):
    hostile = b"layernorm <img src=x onerror=alert(1)>\n\x1b[2J \xe2\x80\xae \xff.ipynb"
    os.rename(folder / "layernorm.ipynb", os.path.join(os.fsencode(folder), hostile))
