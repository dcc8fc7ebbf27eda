# Short verbs for people and CI. Everything is installed into .venv; the Slurm tests need root on Debian and say so when they skip.
PYTHON ?= python3
BIN := .venv/bin
LEAF := recipes/multi-node/Qwen3.8/GB300/8k1k/vllm/disagg
CLUSTER ?= /tmp/recipegen-cluster
SHELL := bash

.PHONY: help install demo test unit check format render docs corpus bench cluster-up cluster-down clean

help: ## list the verbs
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

.venv/demo: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[sim]'
	@touch $@

.venv/dev: .venv/demo
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[sim,plots,dev]'
	@touch $@

install: .venv/dev ## everything for work on recipegen, in .venv

demo: .venv/demo ## one whole run on this machine: submit, READY, a chat completion, tear-down
	PATH=$(CURDIR)/$(BIN):$$PATH docs/demo.sh $(LEAF)

test: .venv/dev ## all tests: unit, contract, golden, CLI, local, and on a real Slurm
	$(BIN)/pytest tests

unit: .venv/dev ## the quick tests
	$(BIN)/pytest tests/unit tests/golden tests/cli -n auto

check: .venv/dev ## lint, types, import contracts, shell scripts, fresh bundles: what CI checks beside the tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/shellcheck -x $$(git ls-files '*.sh' '*.sbatch' .ci/run)
	$(BIN)/recipegen render --check recipes

format: .venv/dev ## put the sources into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

render: .venv/demo ## make the committed bundles fresh
	$(BIN)/recipegen render --clean recipes

docs: .venv/demo ## make the generated pages fresh
	$(BIN)/recipegen check --explain all > docs/reference/rules.md
	$(BIN)/recipegen schema matrix --out schemas/matrix.schema.json
	$(BIN)/recipegen schema cluster --out schemas/cluster.schema.json
	$(BIN)/recipegen index recipes

CORPUS ?= ../corpus
corpus: .venv/dev ## import, plan and render the public recipes below CORPUS, and count what came of them
	RECIPEGEN_CORPUS=$(CORPUS) $(BIN)/pytest -n0 -rP tests/contract/test_import_corpus.py

bench: .venv/dev ## speed and memory, as ratios of one run
	$(BIN)/python tests/bench.py

cluster-up: ## a real Slurm of 14 nodes on this machine, in network namespaces; needs root
	tests/cluster/slurm/up.sh -x "$$(tests/cluster/slurm/install.sh)" -b $(CLUSTER) -n 14 -m netns

cluster-down: ## stop it and leave nothing
	tests/cluster/slurm/down.sh -b $(CLUSTER) -w

clean: ## remove what was built, but not the environment
	rm -rf dist build .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
