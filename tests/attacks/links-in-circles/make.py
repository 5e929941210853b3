"""Hand in links only."""

import os


def make(folder, notebook):
    (folder / "layernorm.ipynb").unlink()
    for name, target in {
        "layernorm.ipynb": "layernorm.ipynb",
        "layernorm (1).ipynb": "/proc/self/environ",
        "copy of layernorm.ipynb": "/dev/zero",
        "up": "..",
        "here": ".",
        "old.ipynb": "gone.ipynb",
    }.items():
        os.symlink(target, folder / name)
