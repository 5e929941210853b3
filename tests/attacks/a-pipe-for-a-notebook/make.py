"""Hand in a pipe."""

import os


def make(folder, notebook):
    (folder / "layernorm.ipynb").unlink()
    os.mkfifo(folder / "layernorm.ipynb")
