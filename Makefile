# `make quickstart` and `make test` do all set-up on a fresh machine; the second time they start at once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
JOBS ?= auto
WHEELS ?= dist

.PHONY: quickstart test test-slow wheel docs browser torture check format bench clean

quickstart: $(READY)  ## both models and baselines on the built-in network; quickstart/report.html
	$(BIN)/edgeformers quickstart -o quickstart

test: $(READY)  ## the test suite without its slow cases; no network, no GPU
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow"

test-slow: $(READY)  ## the slow cases
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m slow

wheel: $(READY)  ## the package as a wheel in dist/; a fresh environment is tried by `make test-slow`
	rm -rf build/lib build/bdist.*
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation -w $(WHEELS) .

docs: $(READY)  ## the documentation site, all links checked; build/site/index.html
	$(BIN)/python docs/build.py

browser:  ## Chromium for the tests of the explorer, if it is missing and apt-get may install it
	command -v chromium >/dev/null || (apt-get update -qq && apt-get install -qq -y chromium) || true

torture: $(READY)  ## hostile inputs, kills and full disks in large numbers; goes on where it stopped
	$(BIN)/python -m tests.torture -o torture --workers 2

check: $(READY)  ## formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)  ## speed and memory of preparing and sampling; prints the table of docs/performance.md
	$(BIN)/python -m benchmarks.data

clean:
	rm -rf $(VENV) quickstart build .cache

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $(READY)
