"""Files that Python would import, had it been started beside the notebook."""

HOOK = """
import pathlib
for place in ("/tmp", ".", pathlib.Path.home()):
    try:
        pathlib.Path(place, "pwned-{name}").write_text("pwned")
    except OSError:
        pass
pwned = True
"""


def make(folder, notebook):
    names = ("sitecustomize", "usercustomize", "torch", "json", "safetensors", "layernorm_answers")
    for name in (
        *names,
        "autograder/__init__",
        "solutions/__init__",
        "solutions/layernorm/layernorm",
    ):
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(HOOK.replace("{name}", path.stem))
    (folder / "pwned.pth").write_text("import os; open('/tmp/pwned-pth', 'w').write('pwned')\n")
    (folder / "pyvenv.cfg").write_text("home = /tmp\n")
