"""Zips as learning platforms make them, or as an attacker would, and what became of them."""

from __future__ import annotations

import io
import warnings
import zipfile
from pathlib import Path

from autograder.collect import Mapping, collect

NAME = "layernorm"
NOTEBOOK = b'{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
WHEN = (2026, 3, 1, 12, 30, 0)


def notebook(mark: str = "") -> bytes:
    return NOTEBOOK.replace(b"[]", b'[{"cell_type": "code", "source": "%s"}]' % mark.encode())


def zipped(files: dict[str, bytes] | list[tuple[str, bytes]], when=WHEN, **attributes) -> bytes:
    """A zip with these entries; `attributes` are set on every ZipInfo."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as out, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of duplicate names
        for name, data in files.items() if isinstance(files, dict) else files:
            info = zipfile.ZipInfo("x", when)
            info.filename = name  # as it is: the constructor cuts it at a NUL
            info.compress_type = zipfile.ZIP_DEFLATED
            for key, value in attributes.items():
                setattr(info, key, value)
            out.writestr(info, data)
    return buffer.getvalue()


def collected(tmp_path: Path, files, **options) -> Mapping:
    """Collect a zip, given as its entries or its bytes, into tmp_path/submitted."""
    path = tmp_path / "export.zip"
    path.write_bytes(files if isinstance(files, bytes) else zipped(files, **options))
    return collect(path, NAME, tmp_path / "submitted")


def submitted(tmp_path: Path) -> dict[str, bytes]:
    """student -> bytes of the collected notebook."""
    root = tmp_path / "submitted"
    return {
        p.relative_to(root).parts[0]: p.read_bytes() for p in root.glob(f"*/{NAME}/{NAME}.ipynb")
    }


def students(mapping) -> list[str]:
    return [student for _, student, _ in mapping.accepted]
