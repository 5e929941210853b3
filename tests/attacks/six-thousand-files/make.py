"""Hand in far too many files."""


def make(folder, notebook):
    for number in range(6000):
        inner = folder / f"part{number % 3}"
        inner.mkdir(exist_ok=True)
        (inner / f"layernorm-{number}.ipynb").touch()
