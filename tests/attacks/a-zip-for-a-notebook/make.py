"""Hand in a zip under the name of the notebook."""

import zipfile


def make(folder, notebook):
    path = folder / "layernorm.ipynb"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("../../pwned.txt", "/tmp/pwned.txt", "..\\\\pwned.txt", "layernorm.ipynb"):
            archive.writestr(name, b"0" * (8 << 20))
