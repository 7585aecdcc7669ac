# Needs make and Python 3.11 or newer, nothing else: every target makes the environment it runs in.
# Another interpreter: make PYTHON=/path/to/python demo

PYTHON ?=
CANDIDATES := $(strip $(PYTHON) python3 python3.13 python3.12 python3.11)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-slow lint bench figures clean FORCE

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

demo: .venv/.runtime ## the tour: what shuffling buys, and a collection with real parts
	$(BIN)/shoal demo
	$(BIN)/shoal up --simulate 5000 --once

test: .venv/.dev ## the tests, without the slow ones
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: .venv/.dev ## the slow tests: exhaustive checks that take minutes
	@$(PIP) install -e '.[dev,torch]' opacus scikit-learn
	$(BIN)/python -m pytest -m slow

lint: .venv/.dev ## style, formatting and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict src

bench: .venv/.runtime ## how fast, and how tight
	@$(PIP) install -e '.[network,server]'
	$(BIN)/python benchmarks/run.py $(if $(GRAPH),--graph $(GRAPH))

figures: .venv/.runtime ## draw the figures
	$(BIN)/shoal figures

clean: ## remove caches and build products (the environment too: rm -rf .venv)
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.runtime: .venv/.made pyproject.toml
	@echo "installing shoal into .venv"
	@$(PIP) install -e '.[server]'
	@touch $@

.venv/.dev: .venv/.made pyproject.toml
	@echo "installing shoal and its development tools into .venv"
	@$(PIP) install -e '.[dev]'
	@touch .venv/.runtime $@

# An environment works only where it was made: one that was copied, has lost its interpreter or is
# too old is made anew. Its own pip says where it lives. The file is touched only then, so that
# running this every time reinstalls nothing.
SUPPORTED := import sys; sys.exit(sys.version_info < (3, 11))
.venv/.made: FORCE
	@if ! $(BIN)/python -c '$(SUPPORTED)' 2>/dev/null || \
	    ! $(BIN)/pip --version 2>/dev/null | grep -qF 'from $(CURDIR)/.venv/'; then \
	  found=; \
	  for candidate in $(CANDIDATES); do \
	    if "$$candidate" -c 'import ensurepip, venv; $(SUPPORTED)' 2>/dev/null; then \
	      found="$$candidate"; break; \
	    fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo "Shoal needs Python 3.11 or newer with its venv module; looked for: $(CANDIDATES)." >&2; \
	    echo "Install one, or say where it is: make PYTHON=/path/to/python" >&2; \
	    exit 1; \
	  fi; \
	  echo "making .venv with $$("$$found" --version)"; \
	  rm -rf .venv && "$$found" -m venv .venv && touch $@; \
	fi
	@[ -f $@ ] || touch $@
