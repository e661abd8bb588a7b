# Two commands on a fresh machine:  make demo  and  make test.  Everything lands in .venv; nothing else is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable

.PHONY: setup demo test check bench clean

setup: $(VENV)/.base

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "bertctl needs Python 3.11 or later: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) .
	touch $@

$(VENV)/.test: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) '.[test]'
	touch $@ $(VENV)/.base

$(VENV)/.check: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) '.[test,check]'
	touch $@ $(VENV)/.test $(VENV)/.base

demo: $(VENV)/.base
	$(BIN)/bertctl run recipes/demo.yaml

# One thread for each of the two workers: with more, they take the cores from each other.
test: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile -q

check: $(VENV)/.check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.base
	$(BIN)/python benchmarks/startup.py

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
