"""Replace the folder by a link to a neighbour's."""

import shutil


def make(folder, notebook):
    shutil.rmtree(folder)
    folder.symlink_to(folder.parents[1] / "a-honest-full" / "layernorm")
