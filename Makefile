# Needs make and Python 3.11 or newer, nothing else: every target makes the environment it runs in.
# Another interpreter: make PYTHON=/path/to/python demo
# Node, Chromium and Java are found or installed (setup/components.py); another Chromium:
# make SHOAL_CHROMIUM=/path/to/chromium test

PYTHON ?=
CANDIDATES := $(strip $(PYTHON) python3 python3.13 python3.12 python3.11)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
SCRIPTS := $(BIN)/python setup/scripts.py
export SHOAL_CHROMIUM
# The products of the accountant are small: threads would only wait for each other.
export OPENBLAS_NUM_THREADS ?= 1
# Every process that a test starts would compile the package anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo docs test test-slow test-spark lint bench browser screenshots figures wheel release clean FORCE

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

demo: .venv/.runtime .venv/.node ## the tour: what shuffling buys, and a collection with real parts
	@$(SCRIPTS) --if-possible || echo "the pages will say that their scripts are not built"
	$(BIN)/shoal demo
	$(BIN)/shoal up --simulate 5000 --once

# What pages and notebooks show is tested with the site they are on, by `make docs`.
test: .venv/.dev .venv/.node .venv/.chromium ## the tests, without the slow ones
	@$(SCRIPTS) --if-possible
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" --ignore tests/spark --ignore tests/site \
	  --ignore tests/test_docs.py --ignore tests/test_notebooks.py

test-slow: .venv/.dev .venv/.node .venv/.chromium ## the slow tests: exhaustive checks that take minutes
	@$(SCRIPTS) --if-possible
	@$(PIP) install -e '.[dev,torch]' opacus scikit-learn
	$(BIN)/python -m pytest -m slow

test-spark: .venv/.dev .venv/.java ## the tests on Apache Spark: installs it, and Java if it is missing
	@$(PIP) install -e '.[dev,spark]'
	$(BIN)/python -m pytest -m "not slow" tests/spark

docs: .venv/.docs .venv/.node .venv/.chromium ## the documentation site, into docs/_build/html, and all that it shows (NOTEBOOKS=off: not run)
	@$(SCRIPTS) --if-possible
	SHOAL_DOCS_NOTEBOOKS=$(or $(NOTEBOOKS),cache) \
	  $(BIN)/python -m sphinx -q -W --keep-going -d docs/_build/doctrees docs docs/_build/html
	$(BIN)/python -m pytest -q -n 2 --dist worksteal tests/site tests/test_docs.py tests/test_notebooks.py
	@echo "docs/_build/html/index.html is ready to be opened"

lint: .venv/.dev ## style, formatting and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict src

bench: .venv/.dev .venv/.node .venv/.chromium ## how fast, and how tight
	@$(SCRIPTS) --if-possible
	$(BIN)/python benchmarks/run.py $(if $(GRAPH),--graph $(GRAPH))

figures: .venv/.runtime ## draw the figures
	$(BIN)/shoal figures

browser: .venv/.made .venv/.node ## build the scripts of the survey page, the dashboard and the calculator
	@$(SCRIPTS)

screenshots: .venv/.dev .venv/.node .venv/.chromium ## take the pictures in docs/screenshots and docs/notebooks
	@$(SCRIPTS)
	$(BIN)/python setup/screenshots.py docs/screenshots
	$(BIN)/python setup/notebooks.py docs/notebooks docs/notebooks/pictures

wheel: .venv/.made .venv/.node ## build the package, with the browser's scripts in it, into dist
	@$(SCRIPTS)
	@$(PIP) wheel --no-deps --wheel-dir dist .

release: .venv/.made .venv/.node ## build the files of a version into dist, after checking each (TAG=v0.3.0: of that tag)
	@$(PIP) install 'build>=1.2' 'twine>=6.1'
	$(BIN)/python setup/release.py $(if $(TAG),--tag $(TAG))

clean: ## remove caches and build products (the environment too: rm -rf .venv)
	rm -rf build dist docs/_build clients/browser/dist src/shoal/web/assets docs/_static/calculator.js .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests setup benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.runtime: .venv/.made pyproject.toml
	@echo "installing shoal into .venv"
	@$(PIP) install -e '.[server]'
	@touch $@

# A third of all these modules is ever imported: each is compiled then, not here.
.venv/.dev: .venv/.made pyproject.toml
	@echo "installing shoal and its development tools into .venv"
	@$(PIP) install --no-compile -e '.[dev]'
	@touch .venv/.runtime $@

.venv/.docs: .venv/.dev pyproject.toml
	@echo "installing what builds the documentation into .venv"
	@$(PIP) install -e '.[dev,docs]'
	@touch $@

# What is recorded there and still exists is not looked for again, and its file not touched. What
# cannot be had stops nobody: the reason is in .venv/.node-missing and the like.
.venv/.node: .venv/.made FORCE
	@$(BIN)/python setup/components.py node

.venv/.chromium: .venv/.dev FORCE
	@$(BIN)/python setup/components.py chromium

.venv/.java: .venv/.made FORCE
	@$(BIN)/python setup/components.py java

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
