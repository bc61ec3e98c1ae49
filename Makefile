# `make demo` and `make test` work on a fresh machine with Python 3.11 or newer, and make.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# Python keeps what it compiles, whatever the environment says: the tests start many processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-measure test-beside test-slow test-long e2e test-fast lint crds cli-page chart package site image release-check lock bench bench-peers reproduce cluster-build browser clean fuzz simulate-faults fuzz-objects mutate audit nightly

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	touch $(STAMP)

## demo: a cluster, the operator, two latency queues and three throughput queues; about seven minutes once built
demo: $(STAMP)
	$(BIN)/python -m e2e.demo

# A test that fails runs a second time, under the load of the first try. First failures are recorded, and a test that needs its second try
# in two consecutive runs fails the run (docs/decisions/0004-what-fails-runs-once-more.md).
tests = $(BIN)/python -m tests.support.second_try
QUICK   := "not measure and not slow and not long"
MEASURE := "measure and not long"

# Three workers on two cores: tests on a control plane wait for half of their time.
## test: style, types, contracts, then the tests; builds the control plane first if it is not cached
test: lint cluster-build
	$(tests) quick -m $(QUICK) -n 3 --dist loadfile --no-loadscope-reorder

## test-measure: work done with fairburst and without, each on a control plane of its own and one at a time; CI runs it too
test-measure: $(STAMP) cluster-build
	$(tests) measure -m $(MEASURE)

## test-beside: the tests on a control plane, with a further queue in each namespace; ten minutes, not in CI
test-beside: $(STAMP) cluster-build
	$(BIN)/python -m pytest -q -p tests.support.beside -n 3 --dist loadfile -m "t1 and not measure and not slow and not long" tests/t1

## test-slow: the chart on an API server, and the papers' experiments in their quick forms; CI runs it too
test-slow: $(STAMP) cluster-build browser
	$(tests) slow -m slow -n 2 --dist loadfile --no-loadscope-reorder

## browser: install Chromium by apt, as root, for the tests of the dashboard, which are skipped without it
browser:
	@command -v chromium google-chrome > /dev/null || { apt-get update -qq && apt-get install -y -qq chromium > /dev/null; } || echo "no Chromium"

## test-long: measurements of minutes each on the control plane, for an otherwise idle machine; two hours, each night, not in CI
test-long: $(STAMP) cluster-build
	$(BIN)/python -m pytest -s -m long

## e2e: fairburst's promises on real nodes, in a new kind cluster; needs Docker and kind, or E2E_KUBECONFIG (docs/e2e.md)
e2e: $(STAMP)
	$(tests) e2e -v e2e/promises

## test-fast: the tests that need no control plane
test-fast: $(STAMP)
	$(BIN)/python -m pytest -m "not t1 and not measure and not slow and not long"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

## cluster-build: etcd, the Kubernetes control plane, KWOK and Helm from pinned Go modules, cached by version
cluster-build: $(STAMP)
	$(BIN)/python -m e2e.cluster build --helm

## crds: regenerate crds/*.yaml from the pydantic models
crds: $(STAMP)
	$(BIN)/fairburst crds --save crds

## cli-page: regenerate the reference in docs/cli.md from the commands
cli-page: $(STAMP)
	$(BIN)/python -m fairburst.cli.reference docs/cli.md

## chart: regenerate the parts of charts/fairburst that come from the operator's sources, from values.yaml and from pyproject.toml
chart: $(STAMP)
	$(BIN)/python -m release chart

## site: build the documentation as a site in build/site, strictly, with mkdocs-material in a separate environment
site:
	$(PYTHON) -m venv build/mkdocs && build/mkdocs/bin/pip install --quiet "mkdocs-material>=9.6,<10"
	NO_MKDOCS_2_WARNING=1 build/mkdocs/bin/mkdocs build --quiet

## package: build the chart for `helm install` and the wheel for `pip install`, in dist/
package: $(STAMP)
	$(BIN)/python -m release package

## image: build the operator's image twice and check it, with its size and start-up; BASE is another base with Python 3.11 or newer
BASE  ?= python:3.13-slim
IMAGE ?= fairburst:dev
image: $(STAMP)
	for name in $(IMAGE) $(IMAGE)-again; do \
	  docker build --network host --no-cache --build-arg BASE=$(BASE) --build-arg REVISION=$$(git rev-parse HEAD) \
	    --build-arg VERSION=$$($(BIN)/fairburst --version | cut -d' ' -f2) -t $$name . || exit 1; done
	$(BIN)/python -m release image $(IMAGE) $(IMAGE)-again

## release-check: check the conditions for releasing a version, and write its bill of materials, build/sbom.json
release-check: $(STAMP)
	$(BIN)/python -m release check
	mkdir -p build && $(BIN)/python -m release sbom --output build/sbom.json

## audit: known vulnerabilities of the locked dependencies; fails if one can't be checked, so it needs the package index itself, not a mirror
audit: $(STAMP)
	$(PYTHON) -m venv build/audit && build/audit/bin/pip install --quiet "pip-audit>=2.9,<3"
	build/audit/bin/pip-audit --requirement requirements.lock --require-hashes --disable-pip --strict

bench: $(STAMP)
	$(BIN)/python -m benchmarks

## reproduce: every reproducible figure and table of the papers, as JSON and plots; first prints its duration; resumes after an interruption
SEED ?= 1
reproduce: $(STAMP)
	nice -n 15 $(BIN)/fairburst reproduce all --jobs 2 --seed $(SEED) --save build/reproduction

lock: $(STAMP)
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --extra operator --extra cluster --extra sim --extra dev --generate-hashes \
	  --no-emit-index-url --no-header pyproject.toml -o requirements.lock

clean:
	rm -rf $(VENV) build dist

## fuzz: decide on every kind of number in every place, with fresh seeds, for FUZZ_SECONDS
FUZZ_SECONDS ?= 60
fuzz: $(STAMP)
	end=$$(( $$(date +%s) + $(FUZZ_SECONDS) )); while [ $$(date +%s) -lt $$end ]; do \
	  FAIRBURST_HYPOTHESIS=fuzz $(BIN)/python -m pytest -q tests/properties/test_fuzz.py || exit 1; done

## simulate-faults: the whole operator in virtual time with faults by seed; SEEDS=1-1000, or one seed to repeat a run
SEEDS ?= 1-200
SIMULATE_JOBS ?= 2
simulate-faults: $(STAMP)
	mkdir -p build && $(BIN)/python -m tests.simulation $(SEEDS) --jobs $(SIMULATE_JOBS) --results build/seeds.jsonl

## fuzz-objects: many objects that the API server admits, through the whole operator in virtual time; SEED= is that of the first 20,000
OBJECTS ?= 1000000
SEED ?= 1
fuzz-objects: $(STAMP)
	mkdir -p build && $(BIN)/python -m tests.simulation.fuzz $(OBJECTS) --seed $(SEED) --jobs $(SIMULATE_JOBS) --results build/objects.jsonl

## nightly: checks that take hours: ten thousand seeds of faults, a million objects, and `test-long`
nightly: $(STAMP)
	$(MAKE) simulate-faults SEEDS=1-10000
	$(MAKE) fuzz-objects OBJECTS=1000000
	$(MAKE) test-long

## mutate: mutation testing of the modules that decide (hours; not part of `test`); MUTANTS="drf bopf" for some. Resumes unless a source has changed
MUTANTS ?= bopf drf admission windows rounding decide schedule table profile memory versioned uncertainty baselines
mutate: $(STAMP)
	$(BIN)/pip install --quiet --no-build-isolation -e ".[mutation]"
	mkdir -p build/mutation && cp -r pyproject.toml tests benchmarks build/mutation/
	diff -qrx __pycache__ operator build/mutation/src > /dev/null 2>&1 || rm -f build/mutation/results.jsonl
	rm -rf build/mutation/src && cp -r operator build/mutation/src
	@# one mutant only: this generates all of them, and notes which test reaches which function
	cd build/mutation && FAIRBURST_HYPOTHESIS=mutation nice -n 19 $(abspath $(BIN))/mutmut run --max-children 2 \
	  "fairburst.policy.bopf.x__extras_that_fit__mutmut_1" > mutmut.log
	cd build/mutation/mutants && export FAIRBURST_HYPOTHESIS=mutation PYTHONPATH=src:. && for longest in 0.6 inf; do \
	  MUTATION_LONGEST_TEST=$$longest nice -n 19 $(abspath $(BIN))/python -m tests.support.mutants ../results.jsonl $(MUTANTS); done

## bench-peers: the same work under fairburst, Kueue and plain Kubernetes; needs an idle machine for sixteen hours; SIZE=0.5 halves the pods
SIZE ?= 1
PEERS_OUT ?= build/peers.csv
bench-peers: $(STAMP) cluster-build
	mkdir -p build && $(BIN)/python -m benchmarks.peers --build kueue
	$(BIN)/python -m benchmarks.peers --all --size $(SIZE) --out $(PEERS_OUT)
