# Every target sets up what it needs: on a fresh Debian or Ubuntu machine, Python 3.11 or newer and make are enough.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
.DEFAULT_GOAL := help
.PHONY: help setup demo test check format bench soak servers clean

help: ## this list
	@echo "make <target>   (PYTHON=python3.12 chooses the interpreter; now: $(PYTHON))"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' Makefile

setup: $(INSTALLED) ## create .venv and install Lamina with its tools

demo: $(INSTALLED) ## publish, read and recover: the store in one minute
	$(BIN)/lamina demo

test: check servers ## all checks, then all tests
	$(BIN)/pytest

check: $(INSTALLED) ## format, lint, types, import rules, tidiness
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/test_tidy.py

format: $(INSTALLED) ## rewrite the sources in the house format
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: $(INSTALLED) servers ## measure throughput and latency
	$(BIN)/python -m benchmarks

soak: $(INSTALLED) ## a hundred kills of a writing process, fifty thousand filters against the official runtime (slow)
	$(BIN)/python -m benchmarks.kill_rounds --rounds 100
	$(BIN)/python -m benchmarks.cel_soak --expressions 50000

servers: ## install what tests and benchmarks start by themselves (Redis)
	@command -v redis-server >/dev/null || { \
		if [ "$$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then \
			echo "The tests start a Redis server of their own, and there is none: sudo apt-get install redis-server" >&2; \
			exit 1; \
		fi; \
		echo "Installing redis-server, which the tests start by themselves."; \
		apt-get update -q; \
		RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends redis-server; }

clean: ## remove .venv, caches and build results
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is newer than its prerequisites after a complete install only, so a broken set-up is repeated.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Lamina needs Python 3.11 or newer, but '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)." >&2; \
		echo "Name another one, for example: make PYTHON=python3.12" >&2; \
		exit 1; }
	@if ! $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then \
		package=python$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv; \
		if [ "$$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then \
			echo "'$(PYTHON)' cannot create virtual environments: its ensurepip module is missing." >&2; \
			echo "Install it and repeat, for example: sudo apt-get install $$package" >&2; \
			exit 1; \
		fi; \
		echo "Installing $$package, which '$(PYTHON)' needs to create virtual environments."; \
		apt-get update -q; \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -q $$package || { \
			echo "apt-get could not install $$package: install it and repeat." >&2; \
			exit 1; }; \
	fi
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { rm -rf $(VENV); $(PYTHON) -m venv $(VENV); }
	@echo "Installing Lamina and its tools into $(VENV) (a minute the first time)."
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@
