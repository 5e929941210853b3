# The course: build the book, work on exercises, grade a class, run the tests.
# `make` lists the targets. Each sets up what it needs; the first time takes some minutes.
#
#   VENV=DIR       where the Python environment lies (default .venv)
#   JOBS=N         the most test processes at once, at most one a core (default 4)
#   PYTHON=PATH    the Python 3.11 to 3.13 to make it with (default: the first that is found)

VENV ?= .venv
PORT ?= 8000
PYTEST_ARGS ?=
JOBS ?= 4
LAB_ARGS ?=
LOCK_ARGS ?=

BIN := $(if $(filter /%,$(VENV)),$(VENV),$(CURDIR)/$(VENV))/bin
python := "$(BIN)/python"

# nbgrader calls `alembic` by name, so the environment comes first on PATH. Packages and settings of
# the person's own Python stay out of it.
export VENV
export PATH := $(BIN):$(PATH)
export PYTHONNOUSERSITE := 1
unexport PYTHONPATH
unexport PYTHONHOME

.PHONY: help setup lock demo test quick soak book serve lab exercises samples bench lint clean

help: ## list the targets
	@echo "usage: make TARGET"
	@awk -F ':[^#]*## ' '/^[a-z]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' Makefile

setup: ## make the Python environment (.venv) and install the pinned packages
	@sh tools/setup.sh

# uv finds versions for all Pythons and systems at once. It keeps what is in the list and still fits.
# It does not install: it would pass over pip's settings, and so over a torch without CUDA there.
lock: ## renew requirements-lock.txt (LOCK_ARGS=--upgrade takes newer versions)
	@[ -x "$(BIN)/python" ] || sh tools/setup.sh
	$(python) -m pip install --quiet --upgrade --target build/uv uv==0.13.9
	build/uv/bin/uv pip compile requirements.txt --output-file requirements-lock.txt --quiet \
	  --universal --python-version 3.11 --strip-extras --no-annotate --no-emit-index-url \
	  --custom-compile-command "make lock" $(LOCK_ARGS)

# Results and gradebook of the sample class stay apart from those of a real one.
demo: setup ## grade the sample class, then build the book; say where to look
	@echo "demo: grading the sample class in samples/submitted"
	@mkdir -p results/samples
	@# 1: some could not be graded. The sample class holds three such files on purpose.
	@COURSE_DB_URL="sqlite:///$(CURDIR)/results/samples/gradebook.db" \
	  $(python) -m autograder grade layernorm --submitted samples/submitted \
	  --results results/samples || [ $$? -eq 1 ]
	@echo "demo: building the book; its pages run their code, which takes some minutes"
	@$(MAKE) --no-print-directory book
	@echo "book:        _build/html/index.html (make serve shows it on localhost)"

# Something of every room, and a submission from the notebook to the gradebook. That every room is
# there, and every file, is tested (tests/course/test_repository.py).
QUICK := tests/course/test_repository.py tests/course/test_rooms.py tests/reading tests/worker \
  tests/testing/test_compare.py tests/testing/test_verdict.py tests/forbidden/test_spellings.py \
  tests/sandbox/test_system_calls.py tests/kernel_sanitizer tests/grading/test_waiting.py \
  tests/reports tests/gradebook/test_gradebook.py tests/collect/test_collect.py \
  tests/cluster/test_reply.py tests/suites/test_every_suite.py

quick: setup lint ## lint, types, and a minute of tests: the loop while you work
	$(python) -m pytest -q -n auto --maxprocesses $(JOBS) --dist loadfile \
	  -m 'not soak and not minutes' $(QUICK) $(PYTEST_ARGS)

test: setup lint ## lint, then every test that fits into minutes
	$(python) -m pytest -n auto --maxprocesses $(JOBS) --dist loadfile $(PYTEST_ARGS)

soak: setup ## the long tests: fuzzing, faults, full experiments
	$(python) -m pytest -m soak $(PYTEST_ARGS)

# The book's kernels get settings of ours, not the person's own start-up files.
book: setup ## build the site into _build/html; a warning is an error
	@mkdir -p build/ipython/profile_default
	@cp tools/ipython_kernel_config.py build/ipython/profile_default/
	IPYTHONDIR="$(CURDIR)/build/ipython" "$(BIN)/jupyter-book" build --warningiserror --keep-going --quiet .

serve: setup ## show the built site on localhost (PORT=8000)
	@test -f _build/html/index.html || $(MAKE) book
	@$(python) -c 'import socket; socket.create_server(("127.0.0.1", $(PORT)))' 2>/dev/null \
	  || { echo "serve: port $(PORT) is taken; try make serve PORT=8001" >&2; exit 1; }
	@$(python) -m http.server --bind 127.0.0.1 --directory _build/html $(PORT)

# Learners never edit exercises/ in place: it is generated, and grading compares with it.
lab: setup ## copy the exercises to my-work/ and open them in JupyterLab
	@mkdir -p my-work && echo '*' > my-work/.gitignore
	@for folder in exercises/*/; do \
	  copy=my-work/$$(basename "$$folder"); \
	  if [ -e "$$copy" ]; then echo "lab: $$copy is kept as you left it"; \
	  else cp -R "$${folder%/}" "$$copy" && echo "lab: $$copy is a fresh copy"; fi; \
	done
	cd my-work && $(python) -m jupyterlab $(LAB_ARGS)

exercises: setup ## generate exercises/ from solutions/
	$(python) -m autograder release

samples: setup ## generate the sample class
	$(python) -m samples.make

bench: setup ## measure grading speed beside nbgrader's own
	$(python) -m bench.grading

lint: setup ## check style and types
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	$(python) -m mypy

clean: ## remove what is built; gradebook, submissions, results, my-work and .venv stay
	rm -rf _build build .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -path ./.venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
