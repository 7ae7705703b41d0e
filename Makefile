# `make` alone prints what there is. Needs Python 3.11+ and nothing else:
# everything is installed into .venv, from requirements.lock, by hash.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
ARGS ?=
# Tests start Python some hundred times: where its cache is switched off, as in many images, a start costs twice as much.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup run test bench check format lock upgrade clean

help:  ## this list
	@sed -nE 's/^([a-z]+):.*  ## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

setup: $(INSTALLED)  ## install everything into .venv

run: setup  ## the daemon with a simulated service, on SQLite: http://127.0.0.1:9874
	$(BIN)/slo-exporter serve --demo $(ARGS)

test: setup  ## all tests; ARGS="tests/slo -k budget" for some
	$(BIN)/pytest --numprocesses auto --dist worksteal $(ARGS)

bench: setup  ## how fast, and at what cost; ARGS="--quick", ARGS="--only ingest --json FILE"
	$(BIN)/python benchmarks/bench.py $(ARGS)

check: setup  ## format, lint, types, import rule
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: setup  ## rewrite the code as `make check` wants it
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# A lock names versions and hashes, never where packages come from: docs/adr/0003.
LOCK = $(BIN)/uv pip compile --quiet pyproject.toml --extra demo --group dev --group build \
	--universal --python-version 3.11 --generate-hashes \
	--no-header --no-emit-index-url --no-emit-find-links --output-file requirements.lock

lock: setup  ## requirements.lock again, after a change of dependencies
	$(LOCK)

upgrade: setup  ## requirements.lock with the newest versions
	$(LOCK) --upgrade

clean:  ## remove .venv and caches; databases stay
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# pip brings uv, at the locked version and hash, and uv brings the rest.
$(INSTALLED): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "slo-exporter needs Python 3.11 or newer: make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > .venv/uv.lock
	$(BIN)/pip install --quiet --require-hashes --no-deps --requirement .venv/uv.lock
	$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@
