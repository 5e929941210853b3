#!/bin/sh
# Finds a Python that fits and hands over to setup.py, which makes the virtual environment.
# Says in one line what is wrong when none fits. Called by `make setup`.
#   PYTHON=/path/to/python3.12   use this one
#   VENV=DIR                     where the environment lies (default .venv)

here=$(cd "$(dirname "$0")" && pwd)
newest="" # a Python that runs but does not fit, for the message
bare=""   # a Python that fits but cannot make environments

fail() {
    echo "setup: $1" >&2
    exit 1
}

for name in ${PYTHON:+"$PYTHON"} python3.13 python3.12 python3.11 python3 python; do
    # Running it is the only test that counts: a launcher may lie on PATH for a version that is gone.
    version=$("$name" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
    case "$version" in
    3.11 | 3.12 | 3.13)
        if "$name" -c 'import venv, ensurepip' 2>/dev/null; then
            exec "$name" "$here/setup.py"
        fi
        bare=${bare:-$version}
        ;;
    ?*) newest=${newest:-"$version ($name)"} ;;
    *) ;;
    esac
    [ -z "$PYTHON" ] || break # the Python that was asked for, or none
done

wanted="3.11, 3.12 or 3.13 is needed; install one, or name it: make setup PYTHON=/path/to/python3.12"
if [ -n "$bare" ]; then
    fail "Python $bare lacks the venv module; on Debian or Ubuntu: sudo apt install python$bare-venv"
elif [ -n "$PYTHON" ] && [ -z "$newest" ]; then
    fail "PYTHON=$PYTHON does not run; Python $wanted"
elif [ -z "$newest" ]; then
    fail "no Python was found; Python $wanted"
fi
case "$newest" in
2.* | 3.[0-9]\ * | 3.10\ *) fail "Python $newest is too old; $wanted" ;;
*) fail "Python $newest is too new for these versions of torch and numpy; $wanted" ;;
esac
