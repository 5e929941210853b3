"""Files that pytest would read, had it been started beside the notebook."""

HOOK = """
import pathlib
for place in ("/tmp", ".", pathlib.Path.home()):
    try:
        pathlib.Path(place, "pwned-{name}").write_text("pwned")
    except OSError:
        pass
"""


def make(folder, notebook):
    for name in ("conftest", "test_layer_norm", "pwned_plugin", "setup"):
        text = (
            HOOK.replace("{name}", name) + "def pytest_runtest_call(item):\n    item.runtest = id\n"
        )
        (folder / f"{name}.py").write_text(text)
        (folder.parent / f"{name}.py").write_text(text)
    options = "addopts = -p pwned_plugin --collect-only\npython_files = nothing.py\n"
    (folder / "pytest.ini").write_text("[pytest]\n" + options)
    (folder / "tox.ini").write_text("[pytest]\n" + options)
    (folder / "setup.cfg").write_text("[tool:pytest]\n" + options)
    (folder / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\naddopts = "-p pwned_plugin"\n'
    )
