# The README's two commands are `make demo` and `make test`. They need Python >= 3.11 with venv, and make.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# PostgreSQL's programs from Debian's package, another major version than the wheel's; nothing where they are not installed.
DEBIAN := $(wildcard /usr/lib/postgresql/15/bin)
# What runs through a PgBouncer too.
POOLED := $(addprefix tests/ledger/test_,append.py counting.py opening.py rebuilding.py redaction.py state_machine.py writers.py)
PLAIN  := $(VENV)/.plain

# The tests start hundreds of processes; each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo check test test-slow test-scale mutations test-claude test-clients test-browser lint format prose docs site man papers bench wheel-check release-check clean

help:            ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(PLAIN)

# What the tests need is four times as large as what a user does.
$(PLAIN): pyproject.toml
	@echo "Installing reflector into $(VENV) (about 130 MB, once) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

demo: $(PLAIN)   ## an end-to-end run on bundled sessions; nothing to configure
	@$(BIN)/reflector demo

check: lint      ## lint, types, and the tests of your changes; before each commit
	PYTHONPATH=. $(BIN)/python .ci/changed.py

test: $(STAMP)   ## the fast suite: everything on SQLite, and PostgreSQL where its SQL differs
	$(BIN)/python -m pytest -q -n 2 -m "not slow and not client and not scale and not browser"

test-slow: $(STAMP) ## the fault campaigns, all of PostgreSQL, every generated test with all of its examples
	REFLECTOR_TEST_THOROUGH=1 $(BIN)/python -m pytest -q -n 2 -m "(slow or hypothesis) and not client and not scale and not browser"
ifneq ($(DEBIAN),)
	REFLECTOR_TEST_POSTGRES_BIN=$(DEBIAN) $(BIN)/python -m pytest -q -n 2 -m "postgres and not slow and not scale" tests/ledger tests/audit
endif

test-scale: $(STAMP) ## servers as teams run them: poolers, roles, failover; needs Debian's packages
	$(BIN)/python -m pytest -q -n 0 -m "scale or slow" --timeout 1200 tests/scale
	REFLECTOR_TEST_POOLER=1 $(BIN)/python -m pytest -q -n 2 -m "postgres and not scale" $(POOLED)
ifneq ($(DEBIAN),)
	REFLECTOR_TEST_POSTGRES_BIN=$(DEBIAN) $(BIN)/python -m pytest -q -n 2 -m "postgres and not scale" tests/ledger tests/audit
endif

mutations: $(STAMP) ## small defects, one at a time, which the fast suite has to notice
	$(BIN)/python -m tests.mutations

test-claude: $(STAMP) ## the real Claude Code against a stand-in API; installs it from the npm registry
	$(BIN)/python -m tests.client claude -n 2

test-clients: $(STAMP) ## the same with Codex, Gemini, Copilot, OpenCode and pi
	$(BIN)/python -m tests.client -n 2

test-browser: $(STAMP) ## the report in Debian's Chromium, with axe-core from npm; PICTURES=1 draws README's picture anew
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'playwright>=1.50,<2' 'datasette>=0.65,<1' 'datasette-dashboards>=0.8,<0.9'
	npm install --silent --no-save --prefix $(VENV)/axe 'axe-core@4'
	$(BIN)/python -m pytest -q -n 0 -m browser tests/report

lint: $(STAMP)   ## ruff, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP) ## repair and format the code with ruff
	$(BIN)/ruff check --quiet --fix-only .
	$(BIN)/ruff format .

prose: $(STAMP)  ## the limits of plain prose: README, pages, help and messages
	$(BIN)/python -m pytest -q -n 0 tests/test_prose.py

docs: $(STAMP)   ## write what is generated: pages of docs/, and the public surface, tests/surface.txt
	$(BIN)/python -m tests.surface

site: $(STAMP)   ## the documents as a site below site/, strictly: no dead link, no page outside its groups
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

man: $(STAMP)    ## a manual page of each command below build/man
	$(BIN)/python .ci/man.py build/man

papers: $(STAMP) ## what a release needs besides code: workflows, the next changes, the site
	$(BIN)/zizmor --offline --quiet .
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec examples/team/compose.yaml
	$(BIN)/towncrier build --draft --version next >/dev/null
	$(MAKE) site man

bench: $(STAMP)  ## every figure of docs/install.md, each beside its floor
	$(BIN)/python -m benchmarks

wheel-check: $(STAMP) ## build wheel and sdist twice, install outside the checkout (lowest, newest), run it there
	bash .ci/wheel-check

release-check: $(STAMP) ## install what a release would publish, run it, and print the commands to publish
	bash .ci/release-check

clean:           ## remove what the targets made
	rm -rf $(VENV) build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
