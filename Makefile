# `make demo` and `make test` need nothing but Python 3.11, a C++ compiler and a network at the
# first run: `setup` makes .venv and, outside this checkout, builds llama.cpp and fetches a model.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# Tests start many processes: none shall compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test test-fast test-clients lint types format check clean
.DEFAULT_GOAL := setup

setup: $(INSTALLED)
	@$(BIN)/python -m specproxy.pool.build
	@$(BIN)/python -m specproxy.pool.models

# The bindings come without a library of their own: they use the one `pool.build` compiles, once,
# together with the server and the worker. pip's cache must not keep such a wheel for others.
$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "specproxy needs Python 3.11 or later; name one: make PYTHON=python3.12" >&2; exit 1; }
	@command -v $${CXX:-c++} >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null || \
		{ echo "There is no C++ compiler: apt-get install build-essential cmake ninja-build" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
		{ echo "No virtual environment could be made: apt-get install python3-venv" >&2; exit 1; }
	CMAKE_ARGS="-DLLAMA_BUILD=OFF -DLLAVA_BUILD=OFF" \
		$(BIN)/python -m pip install --quiet --no-cache-dir --editable '.[dev]'
	@touch $@

demo: setup
	$(BIN)/specproxy demo

# What needs no model mostly waits, so four at once; the rest alone, for llama.cpp wants them itself.
test: setup test-fast
	$(BIN)/pytest -m "real or browser or load"

test-fast: $(INSTALLED)
	$(BIN)/pytest -n 4 --dist worksteal -m "not (real or browser or load or clients)"

test-clients: setup
	$(BIN)/pytest -m clients

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(INSTALLED)
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: lint types test

# The cache folder (~/.cache/specproxy) stays.
clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
