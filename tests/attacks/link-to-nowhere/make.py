"""Replace the folder by a link that leads nowhere."""

import shutil


def make(folder, notebook):
    shutil.rmtree(folder)
    folder.symlink_to(folder.parents[1] / "nobody" / "layernorm")
