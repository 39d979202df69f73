# `make demo` and `make test` are all the set-up there is: each makes .venv, an environment of its
# own, from nothing but python3 (3.11 or newer, with its venv module).
PYTHON ?= python3
BIN    := .venv/bin
PYTEST := $(BIN)/python -m pytest

# Tests start hundreds of processes, and without compiled files each of them compiles what it loads.
export PYTHONDONTWRITEBYTECODE :=

LOWEST := tests/checks/scan/test_query.py tests/cli/test_inputs.py tests/cli/test_schemas.py \
  tests/interpreter/test_rounding.py tests/indexing/test_isl.py tests/simplifier/test_convert.py \
  tests/ir/test_graph.py tests/test_notebook.py tests/checks/scan/test_running.py \
  tests/checks/scan/test_scan.py::test_urls_and_patterns_are_files \
  tests/cli/test_terminal.py::test_a_table_keeps_names_whole_on_a_narrow_terminal

.PHONY: help demo test test-full compiled lowest check format docs site wheel status clean

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' Makefile

demo: .venv/command ## Install the command and ask it about a softmax
	$(BIN)/hloscope index examples/softmax.hlo

test: .venv/develop ## Install everything and run the quick tests (3 minutes on 2 cores)
	$(PYTEST) -q -n auto --quick --timeout 300 --timeout-method thread

test-full: .venv/develop ## All tests (about 20 minutes on 2 cores)
	$(PYTEST) -q -n auto --timeout 300 --timeout-method thread

compiled: .venv/develop ## Compile the simplifier in a copy, and run its tests there
	$(PYTEST) -q --full tests/test_compiled.py

lowest: .venv/lowest ## Install the lowest versions that are allowed, together, and test with them
	.venv/lowest/bin/python -m pytest -q -p no:cacheprovider -o filterwarnings=default $(LOWEST) \
	  -k "not real_dumps and not layouts and not dynamic and not damaged"
	rm -rf .venv/lowest

.venv/lowest: .venv/bin/python
	rm -rf $@ && $(BIN)/python -m venv $@
	$(BIN)/python -m tests.lowest > $@/versions.txt
	$@/bin/python -m pip install --quiet --disable-pip-version-check --no-compile \
	  --only-binary :all: --requirement $@/versions.txt || { rm -rf $@; exit 1; }

check: .venv/develop ## Format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: .venv/develop ## Format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: .venv/develop ## Write the generated parts of README.md and docs/ anew
	$(BIN)/python -m docs.refresh

wheel: .venv/develop ## Build the wheel and the source distribution, install and try the wheel
	rm -rf dist && $(BIN)/python -m build --outdir dist .
	rm -rf .venv/wheel && $(PYTHON) -m venv .venv/wheel
	.venv/wheel/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	.venv/wheel/bin/hloscope --version
	.venv/wheel/bin/hloscope index .venv/wheel/share/hloscope/examples/softmax.hlo
	rm -rf .venv/wheel && ls -l dist

site: .venv/site ## Make the documentation as static pages in build/site, and check their links
	$(BIN)/python -m docs.site build/site

status: .venv/develop ## Measure everything and write docs/status.md
	$(BIN)/python benchmarks/status.py

clean: ## Remove the environment and caches
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "hloscope needs Python 3.11 or newer; say which: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv .venv || \
	  { rm -rf .venv; echo "$(PYTHON) has no venv module (Debian: apt install python3-venv)" >&2; exit 1; }

.venv/command: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

.venv/develop: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ .venv/command

.venv/site: .venv/develop
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[site]'
	@touch $@
