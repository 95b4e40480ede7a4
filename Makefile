# `make help` lists the targets. Needed: make, and Python >= 3.11 with pip. Everything else is in the lock.

.DEFAULT_GOAL := help
.PHONY: help env compare test test-slow lint format types layers check lock sizes clean distclean

VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif

# The Python that makes the environment: the first of these that is new enough, or `make ... PYTHON=...`.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python python3.14 python3.13 python3.12 python3.11; do \
	if "$$p" -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then echo "$$p"; break; fi; done)

# Words for pytest; all cores by default: `make test PYTEST_ARGS="tests/eaco_opt"`.
PYTEST_ARGS ?= -n auto

help: ## List the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## (.*)/  \1|\2/' | awk -F'|' '{printf "%-14s %s\n", $$1, $$2}'

env: ## Make .venv from requirements.lock, if it is missing or not what the lock says
	@p="$(PYTHON)"; \
	if [ -z "$$p" ]; then \
		echo "error: no Python >= 3.11 found as python3, python or python3.11 to python3.14." >&2; \
		echo "       Install one, or name it: make $(or $(MAKECMDGOALS),env) PYTHON=/path/to/python3.12" >&2; exit 2; \
	elif ! "$$p" -c '' >/dev/null 2>&1; then \
		echo "error: PYTHON=$$p does not start; expected a Python >= 3.11." >&2; exit 2; \
	elif ! "$$p" -c '$(NEW_ENOUGH)'; then \
		echo "error: PYTHON=$$p is $$("$$p" -c 'import platform; print(platform.python_version())'); expected Python >= 3.11." >&2; exit 2; \
	fi; \
	"$$p" tools/make_env.py

compare: env ## The main job: EaCO against its rivals on the built-in instance; tables and figures in out/compare
	@echo "[compare] every method on the built-in instance; tables and figures go to out/compare"
	@$(BIN)/eaco-opt compare --out out/compare --force

test: env ## The default test suite
	@echo "[test] pytest, without the tests marked slow"
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

test-slow: env ## The longer studies among the tests
	@echo "[test-slow] pytest, only the tests marked slow"
	@HYPOTHESIS_PROFILE=slow $(BIN)/python -m pytest -m slow $(PYTEST_ARGS)

lint: env ## ruff: rules and format
	@echo "[lint] ruff check, ruff format --check"
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .

format: env ## ruff: repair what it can, and format
	@$(BIN)/python -m ruff check --fix .
	@$(BIN)/python -m ruff format .

types: env ## mypy, strict, over the shipped packages
	@echo "[types] mypy --strict over the shipped packages"
	@$(BIN)/python -m mypy

layers: env ## The test of floors and imports alone
	@echo "[layers] which folder imports what"
	@$(BIN)/python -m pytest -q tests/test_layers.py

check: lint types test ## lint, types and test

lock: env ## Write requirements.lock anew from pyproject.toml (LOCK_ARGS=--upgrade: with the newest releases)
	@echo "[lock] resolving pyproject.toml for every platform and Python >= 3.11"
	@$(BIN)/python -m uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
		--fork-strategy fewest --extra dev --custom-compile-command "make lock" $(LOCK_ARGS) \
		--output-file requirements.lock pyproject.toml
	@echo "[lock] requirements.lock written; the next make target brings $(VENV) to it"

sizes: env ## Installed size of every dependency
	@$(BIN)/python tools/package_sizes.py

clean: ## Remove caches and build products; keeps the environment, out/ and results/
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage htmlcov
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean ## clean, and remove the environment too
	rm -rf $(VENV)
