# One front door. `make` alone lists what there is.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; exit; }; done)
BIN := .venv/bin
# Written last by `setup`, so that an interrupted one is done again; older than pyproject.toml: done again, too.
READY := .venv/.ready
BENCH_READY := .venv/.bench-ready
# Of the processes that share the tests, file by file, two more have those on Spark (tests/conftest.py), since their jobs
# wait for JVMs and workers half of the time; more at a time would miss each other's deadlines.
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest
SHARED := --dist loadfile --no-loadscope-reorder
# What each test took, for tests/budget.py and tests/slowest.py.
REPORT := $(or $(JUNIT),build/tests).xml
# Touched when all tests have been compiled.
COMPILED := .venv/.tests-compiled
# Fewer changed files are compiled by each process as it collects: one process that collects first costs ten seconds.
CHANGED_MAX := 100
# The compiler's last stage and a collector with threads do not pay in the JVM that writes the archive (tests/conftest.py).
SHORT_LIVED := -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
WITHOUT_SPARK := tests/simulation tests/unit tests/typing

# Without files of bytecode each process that tests start would compile penstock anew, and pytest the tests: a sixth of a run.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup helm manifests demo demo-kafka demo-ships demo-fraud cluster servers test test-fast test-flink test-flink-sql coverage test-figures parity lint fix sim soak corpora chaos bench bench-peers bench-nexmark docs reference changelog check clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## a virtual environment in .venv with all that the other targets need (they do it themselves)

$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "penstock needs Python 3.11 or newer, found: $$(python3 --version 2>&1)." \
		"Name another one: make setup PYTHON=/path/to/python3.12" >&2; exit 1; }
	@echo "Installing penstock and its tools into .venv (2 GB on disk; minutes the first time) ..."
# Making the environment takes seconds and is not interrupted: Python would end with a traceback, and leave a half.
	@trap 'echo "Interrupted. What was installed stays in .venv; make setup goes on from there." >&2; exit 130' INT; \
		test -x $(BIN)/python || (trap "" INT; $(PYTHON) -m venv .venv) && \
		$(BIN)/python -m pip install --disable-pip-version-check --editable '.[dev,demo]' && touch $@

demo: $(READY) ## the flights that left New York in 2013, as a stream
	@$(BIN)/penstock demo

demo-kafka: $(READY) ## the same flights from a Kafka topic into another and into PostgreSQL, exactly once, while worker, driver and broker are killed
	@$(BIN)/python -m penstock_examples.kafka_flights $(ARGS)

demo-ships: $(READY) ## ships that go dark, by a pattern, with a map as SVG: make demo-ships ARGS=ais.csv.gz
	@$(BIN)/python -m penstock_examples.patterns.ships_demo $(ARGS)

demo-fraud: $(READY) ## fraud by rules that change while the job runs
	@$(BIN)/python -m penstock_examples.patterns.fraud_demo $(ARGS)

cluster: $(READY) ## a standalone Spark cluster on the loopback, until Ctrl-C: docs/deploy/standalone.md
	@$(BIN)/python -m penstock.testing.standalone_cluster $(ARGS)

servers: $(READY) ## a Kafka broker, a schema registry, a PostgreSQL, a Redis and an S3 server on the loopback, until Ctrl-C: docs/how-to/{kafka,postgres,redis,files-reading}.md
	@$(BIN)/python -m penstock.testing.servers

test: $(READY) ## all tests but the soak; a part: make test ARGS="tests/spark -k savepoint"
# Before the processes share the tests: what they would all do at once, each for itself.
	@$(if $(ARGS),,SPARK_SUBMIT_OPTS="$(SHORT_LIVED)" $(BIN)/python -m penstock.hosts.spark.driver.class_archive_builder & \
		{ test -e $(COMPILED) && test $$(find src tests -name '*.py' -newer $(COMPILED) | wc -l) -lt $(CHANGED_MAX); } \
		|| { $(PYTEST) --collect-only -qq > /dev/null; touch $(COMPILED); }; wait)
	@$(if $(ARGS),$(PYTEST) $(ARGS),$(PYTEST) -n $$(($(WORKERS) + 2)) $(SHARED) --junitxml=$(REPORT); \
		status=$$?; $(BIN)/python tests/budget.py $(REPORT); exit $$status)

test-fast: $(READY) ## unit tests, types and a part of the simulation, without Spark: two and a half minutes on two quiet cores
	@$(PYTEST) -n $(WORKERS) $(SHARED) -m 'not slow and not thorough and not soak' --ignore-glob 'tests/simulation/test_*mutants.py' $(WITHOUT_SPARK) $(ARGS)

test-flink: $(READY) ## Flink's own command, classes and web pages against our REST, from the wheel apache-flink (fetched once)
	@home=$$($(BIN)/python -m benchmarks.peers.environments) && FLINK_HOME=$$home $(PYTEST) tests/e2e/test_flinks_clients.py $(ARGS)

test-flink-sql: $(READY) ## Flink's own tests of its SQL, fetched by Maven the first time (needs a JDK): programs with a savepoint between their halves, compiled plans, functions
	@$(BIN)/python -m tests.table.flink_cases
	@$(PYTEST) -s -m "" tests/table/test_flink_programs.py tests/table/test_flink_plans.py tests/unit/table/test_flink_function_cases.py tests/table/test_flink_functions.py $(ARGS)

coverage: $(READY) ## branches that unit tests and simulation reach: per package here, per line in coverage/html
	@rm -rf coverage
	@$(BIN)/coverage run -m pytest -n $(WORKERS) --dist loadfile -m 'not slow and not soak' \
		$(if $(ARGS),$(ARGS),--ignore-glob 'tests/simulation/test_*mutants.py' tests/unit tests/simulation) \
		|| echo "Tests have failed. Those that measure time may: traced code is slow. The figures are of what ran."
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage html --quiet
	@$(BIN)/coverage json --quiet
	@$(BIN)/python tests/figures.py coverage/coverage.json

test-figures: $(READY) ## lines of unit tests and of source, by package
	@$(BIN)/python tests/figures.py

HELM = $(or $(shell command -v helm),build/bin/helm)

helm: build/bin/helm ## Helm, from its source, into build/bin: needs Go, and ten minutes

build/bin/helm:
	@GOBIN=$(CURDIR)/build/bin go install helm.sh/helm/v3/cmd/helm@v3.19.0

manifests: ## deploy/kubernetes/penstock.yaml: the chart with its defaults, for those without Helm
	@$(HELM) template penstock deploy/helm/penstock --namespace orders --kube-version 1.30 > deploy/kubernetes/penstock.yaml

parity: $(READY) ## docs/pyflink-parity.md and pyflink-table-parity.md: which of PyFlink's names are there
	@$(BIN)/python tests/parity.py > docs/pyflink-parity.md.new && mv docs/pyflink-parity.md.new docs/pyflink-parity.md
	@$(BIN)/python tests/parity.py --tables > build/tables.md && mv build/tables.md docs/pyflink-table-parity.md

lint: $(READY) ## ruff, mypy --strict, import-linter
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

fix: $(READY) ## format, and repair what ruff can repair
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

sim: $(READY) ## the simulator; one run again: make sim SEED=48211
	@$(BIN)/python -m penstock.hosts.simulator $(if $(SEED),--seed $(SEED))

soak: $(READY) ## a hundred thousand seeds, ninety kills: hours, too long for CI
	@$(BIN)/python -m pytest -m soak --timeout=0

CORPORA_READY := .venv/.corpora-ready

corpora: $(CORPORA_READY) ## public corpora of data files, beside other readers: make corpora FOLDER=/data/corpora
	@$(BIN)/python -m tests.corpora $(or $(FOLDER),$(error FOLDER=... names the folder with the corpora: docs/internals/testing.md)) $(ARGS)

$(CORPORA_READY): $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[corpora]'
	@touch $@

chaos: $(READY) ## faults from outside, by a seed: hours; a part: make chaos ARGS="--faults 20 --backend rocksdb"
	@$(BIN)/python -m tests.chaos $(ARGS)

bench: $(BENCH_READY) ## throughput and latency on this machine: hours; a part: make bench ARGS="--only 1,3 --runs 1"
	@$(BIN)/python benchmarks/run.py $(ARGS)

$(BENCH_READY): $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@

bench-peers: $(READY) ## penstock beside PyFlink, Flink in Java and PySpark: 35 minutes; a try: make bench-peers ARGS=--quick
	@$(BIN)/python -m benchmarks.peers.run $(ARGS)

bench-nexmark: $(READY) ## Nexmark's queries on penstock and on Flink SQL in Java: an hour; a part: make bench-nexmark ARGS="--only q0,q5 --events 1000000"
	@$(BIN)/python -m benchmarks.nexmark_beside_flink $(ARGS)

# Without the advertisement for another site generator, which would be the only thing it prints.
docs: $(READY) ## the manual, into build/site: what it shows of the code is read from the code
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

check: lint docs test ## what CI runs

reference: $(READY) ## the parts of docs/ that are read from the code: API, configuration, commands, metrics, examples
	@$(BIN)/python -m manual.generated

changelog: ## CHANGELOG.md, from the fragments of changelog.d
	@$(or $(PYTHON),python3) -m manual.changelog

clean: ## remove .venv and all that tools have left
	@rm -rf .venv coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist spark-warehouse
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
