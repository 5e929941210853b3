"""Hand in a link that leaves the folder."""


def make(folder, notebook):
    target = folder.parents[2] / "project" / "autograder" / "suites" / "layernorm"
    (folder / "layernorm.ipynb").unlink()
    (folder / "layernorm.ipynb").symlink_to(target / "test_layer_norm.py")
