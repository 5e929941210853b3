"""Leave files that other graders would obey."""


def make(folder, notebook):
    for name in (
        "conftest.py",
        "pytest.ini",
        "pyproject.toml",
        "nbgrader_config.py",
        "suite.toml",
        "sitecustomize.py",
        "results.json",
        "timestamp.txt",
        ".git/config",
        "torch/__init__.py",
    ):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("raise OverflowError('pwned')\n")
