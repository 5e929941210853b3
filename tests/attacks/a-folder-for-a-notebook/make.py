"""Hand in folders called notebooks."""


def make(folder, notebook):
    (folder / "layernorm.ipynb").unlink()
    deep = folder
    for _ in range(10):
        deep = deep / "layernorm.ipynb"
        deep.mkdir()
