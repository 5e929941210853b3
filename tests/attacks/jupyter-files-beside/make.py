"""Configuration that Jupyter, IPython or nbgrader would run, and notebooks beside the right one."""

import json

CODE = "open('/tmp/pwned-{name}', 'w').write('pwned')\nc = get_config()\n"


def make(folder, notebook):
    for name in ("nbgrader_config", "jupyter_config", "ipython_config", "jupyter_notebook_config"):
        (folder / f"{name}.py").write_text(CODE.replace("{name}", name))
        (folder.parent / f"{name}.py").write_text(CODE.replace("{name}", name))
    startup = folder / ".ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "00-first.py").write_text(CODE.replace("{name}", "startup"))
    (folder / "timestamp.txt").write_text("1970-01-01 00:00:00 UTC")
    (folder / "gradebook.db").write_bytes(b"SQLite format 3\0")
    (folder / "results.json").write_text(json.dumps({"score": 20.0, "status": "graded"}))
    hooked = dict(
        notebook, metadata={"kernelspec": {"name": "bash", "argv": ["touch", "/tmp/pwned"]}}
    )
    (folder / "test_layer_norm.ipynb").write_text(json.dumps(hooked))
    (folder / "layernorm.ipynb").write_text(json.dumps(hooked))
