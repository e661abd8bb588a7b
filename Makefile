# Two commands on a fresh machine:  make demo  and  make test.  Everything lands in .venv; nothing else is touched.
PYTHON ?= python3
VENV := .venv
BENCH_VENV := .venv-bench
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

# Peers live in an environment of their own. FULL=1 measures all sizes.
$(BENCH_VENV)/.bench: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@

bench: $(BENCH_VENV)/.bench
	$(BENCH_VENV)/bin/python benchmarks/startup.py
	$(BENCH_VENV)/bin/python benchmarks/bench.py $(if $(FULL),--full)

clean:
	rm -rf $(VENV) $(BENCH_VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
