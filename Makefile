PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: install run demo test check bench format clean

install: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $(STAMP)

run: install
	$(BIN)/reasonbank serve

demo: install
	$(BIN)/reasonbank demo

test: install
	$(BIN)/python -m pytest -n auto

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n auto

bench: install
	$(BIN)/python -m pip install --quiet --group bench
	$(BIN)/python -m bench

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build dist *.egg-info
