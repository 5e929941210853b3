"""The file system a sandbox sees: Python's files, read-only, and nothing else.

Runs once for each server, as process 1 of its pid namespace, before anything is imported.
"""

from __future__ import annotations

import contextlib
import glob
import os
import site
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import linux

PROJECT = Path(__file__).resolve().parents[2]
# Installed by `pip install .`, these would show the hidden tests among the site packages.
_OWN_PACKAGES = ("autograder", "solutions", "exercises", "tests")
_LIBRARIES = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib")
_DATA = (
    "/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts", "/etc/localtime", "/nix/store",
    "/usr/share/fonts", "/usr/share/zoneinfo", "/usr/share/fontconfig",
)  # fmt: skip
# What torch reads to choose its kernels; small copies stand in for /sys and a refused /proc.
_PROCESSOR = ("possible", "present", "online", "kernel_max")
_DEVICES = ("null", "zero", "random", "urandom")
_ACCOUNTS = {
    "passwd": "root:x:0:0::/scratch:/bin/false\nnobody:x:65534:65534::/scratch:/bin/false\n",
    "group": "root:x:0:\nnogroup:x:65534:\n",
}


def executable() -> str:
    """The interpreter itself, not the link to it in a virtual environment."""
    return os.path.realpath(sys.executable)


def site_folders() -> list[str]:
    """The site-packages folders this interpreter imports from; never the project's own path."""
    wanted = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    wanted |= {p for p in sys.path if Path(p).name in ("site-packages", "dist-packages")}
    wanted |= {p for p in site.getsitepackages() if p in sys.path}
    ordered = [p for p in dict.fromkeys([*sys.path, *sorted(wanted)]) if p in wanted]
    return [p for p in ordered if os.path.isdir(p)]


def readable() -> list[str]:
    """Everything Python needs, shortest path first so that a mount never hides a deeper one."""
    prefixes = [Path(p).resolve() for p in (sys.base_prefix, sys.base_exec_prefix)]
    paths = [executable(), *site_folders()]
    paths += [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")]
    paths += [str(p / n) for p in prefixes for n in ("lib", "lib64", "Python")]
    paths += [str(Path(sys.prefix) / "lib"), *_LIBRARIES, *_DATA]
    found = {os.path.abspath(p) for p in paths if os.path.exists(p)}
    return sorted(found, key=lambda p: (p.count("/"), p))


def readable_by_everyone() -> bool:
    """Whether another user could run this Python, given that folders above it are passable."""
    for path in (executable(), *site_folders(), sysconfig.get_path("stdlib")):
        if os.stat(path).st_mode & 0o005 not in (0o005, 0o001):
            return False
    return all(os.stat(p).st_mode & 0o004 for p in (executable(), os.__file__))


def reachable_by_everyone() -> bool:
    """Whether another user could also pass the folders above, as without a mount namespace."""
    parents = {q for p in (executable(), *site_folders()) for q in Path(p).parents}
    return readable_by_everyone() and all(os.stat(q).st_mode & 0o001 for q in parents)


def plan(sources: Mapping[str, Path]) -> dict:
    """What the supervisor must know of this interpreter, which it does not share; JSON."""
    return {
        "python": executable(),
        "site": site_folders(),
        "readable": readable(),
        "for_everyone": readable_by_everyone(),
        "reachable": reachable_by_everyone(),
        "sources": {name: str(path) for name, path in sources.items()},
        "hidden": [] if str(PROJECT) in site_folders() else [str(PROJECT)],
        "exposed": _exposed(),
    }


def _exposed() -> list[str]:
    """What of the project lies inside folders that Python needs, so that only mounts hide it."""
    own = [os.path.join(s, n) for s in site_folders() for n in _OWN_PACKAGES]
    inside = any(Path(p) in PROJECT.parents for p in readable())
    return [p for p in own if os.path.isdir(p)] + ([str(PROJECT)] if inside else [])


def build(base: str, plan: dict) -> None:
    """Mount a new root file system on the empty folder `base`. Raises OSError.

    The plan's `hidden` are folders that must not show even inside a folder that Python needs.
    """
    linux.mount("none", "/", "", linux.MS_REC | linux.MS_PRIVATE)
    linux.mount("tmpfs", base, "tmpfs", linux.MS_NOSUID, "size=4m,mode=0755")
    root = Path(base)
    copy_sources(root, plan["sources"])
    (root / "server" / "empty").touch()
    for name in ("proc", "scratch", "dev", "etc"):
        (root / name).mkdir()
    for name, text in _ACCOUNTS.items():
        (root / "etc" / name).write_text(text)
    for name in _DEVICES:
        (root / "dev" / name).touch()
    _bind_python(root, plan)
    _copy_processor(root)
    # stops: changing Python or another worker's world, setuid programs, device files
    linux.make_read_only(base)
    for name in _DEVICES:
        linux.mount(f"/dev/{name}", str(root / "dev" / name), "", linux.MS_BIND)
    flags = linux.MS_NOSUID | linux.MS_NODEV
    linux.mount("tmpfs", str(root / "scratch"), "tmpfs", flags, "size=32m,mode=1777")


def mount_proc(root: str) -> None:
    """Mount the /proc of this process's children, in place of the copies where it is refused."""
    flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
    with contextlib.suppress(OSError):  # as in many containers
        linux.mount("proc", os.path.join(root, "proc"), "proc", flags)


def copy_sources(root: Path, sources: Mapping[str, str]) -> None:
    """Copy the server's own files to root/server, readable by all. Each path in there: the file."""
    server = root / "server"
    for name, source in sources.items():
        target = server / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(Path(source).read_bytes())
    (server / "autograder" / "__init__.py").touch()
    for path in (server, *server.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _bind_python(root: Path, plan: dict) -> None:
    shown = plan["readable"]
    cover = {h for h in plan["hidden"] if any(Path(s) in Path(h).parents for s in shown)}
    cover |= {f"{s}/{n}" for s in plan["site"] for n in _OWN_PACKAGES}
    cover = {c for c in cover if os.path.isdir(c)}
    for path in sorted({*shown, *cover}, key=lambda p: (p.count("/"), p)):
        target = root / path.lstrip("/")
        if path in cover:  # stops: reading tests that lie among Python's files
            linux.mount("tmpfs", str(target), "tmpfs", 0, "size=1m,mode=0755")
        elif os.path.islink(path):
            target.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                target.symlink_to(os.readlink(path))
        elif not _already_bound(Path(path), shown, cover):
            _bind(path, target)
    empty = str(root / "server" / "empty")
    for folder in plan["site"]:  # stops: learning where the project lies
        for link in [*glob.glob(f"{folder}/*.pth"), *glob.glob(f"{folder}/__editable__*.py")]:
            linux.mount(empty, str(root / os.path.realpath(link).lstrip("/")), "", linux.MS_BIND)


def _already_bound(path: Path, shown: Sequence[str], cover: set[str]) -> bool:
    """Whether the nearest of the folders above it that was mounted shows it already."""
    for parent in path.parents:
        if str(parent) in cover:
            return False
        if str(parent) in shown and not parent.is_symlink():
            return True
    return False


def _bind(path: str, target: Path) -> None:
    if os.path.isdir(path):
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):  # there already, inside a folder mounted before
            target.touch()
    linux.mount(path, str(target), "", linux.MS_BIND | linux.MS_REC)


def _copy_processor(root: Path) -> None:
    """Copy what describes the processor: torch chooses its kernels by it."""
    sources = [f"/sys/devices/system/cpu/{n}" for n in _PROCESSOR]
    for source in [*sources, "/proc/cpuinfo", "/proc/meminfo"]:
        with contextlib.suppress(OSError):
            target = root / source.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(Path(source).read_text())
