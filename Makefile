# Railguard. `make` alone shows what there is.

TOOLS := $(CURDIR)/.tools/bin
BIN   := bin/railguard

# Pinned tools: one line each, checked against the build information of what is in .tools/bin. A newer temporal
# cannot be `go install`ed: its go.mod carries replace directives.
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.8.0
WORKFLOWCHECK := go.temporal.io/sdk/contrib/tools/workflowcheck@v0.6.0
GOVULNCHECK   := golang.org/x/vuln/cmd/govulncheck@v1.1.4
TEMPORAL      := github.com/temporalio/cli/cmd/temporal@v1.5.1

# Packages whose tests run with the race detector: those in which goroutines share memory. It needs a C compiler; without one they run without it.
RACE          := $(if $(shell command -v gcc),-race)
RACE_PACKAGES := ./services/... ./activities/...

.DEFAULT_GOAL := help
.PHONY: help demo dev test lint fencing vuln bench negative-controls build tools tool-temporal postgres clean

help: ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build tool-temporal ## run the whole system and 30 payouts through it (EXIT=1: end by itself, exit code says whether all came out as expected)
	@$(BIN) demo $(if $(filter-out 0 no false,$(EXIT)),--exit)

dev: build tool-temporal ## run the whole system on this machine until Ctrl-C
	@$(BIN) dev

test: tool-temporal postgres ## every test, on real PostgreSQL, real Temporal and real processes
	go vet -tags fencing ./...
	go test -timeout 12m $(RACE) $(RACE_PACKAGES)
	go test -timeout 15m -tags fencing $$(go list ./... | grep -v -E '/(services|activities)(/|$$)')

lint: tools ## formatting, go vet, golangci-lint with the import rules, determinism of the workflows
	@test -z "$$(gofmt -l .)" || { echo "not formatted (gofmt -w):"; gofmt -l .; exit 1; }
	go vet -tags fencing ./...
	$(TOOLS)/golangci-lint run
	$(TOOLS)/workflowcheck ./workflows/...

vuln: tools ## known vulnerabilities in what the binary calls (asks the Go vulnerability database)
	$(TOOLS)/govulncheck ./...

bench: build tool-temporal postgres ## payouts/s and latency against bare workflows in the same run
	go run ./harness/bench

# The corrupting mode comes first: where the money does not move twice without guards, the others prove nothing.
fencing: tool-temporal postgres ## the fencing experiment: all four modes and the control without a pause, with short timing
	@for mode in off rail-only account-only on; do harness/fencing-demo.sh --short --repeat 2 --parallel 2 --fencing $$mode || exit 1; done
	@for mode in off on; do harness/fencing-demo.sh --short --pause none --fencing $$mode || exit 1; done

negative-controls: tool-temporal postgres ## break the product on purpose, in copies: a named test must go red for each
	go run ./harness/negative

# With other flags than the tests' everything would be compiled twice.
build: ## build bin/railguard
	@go build -o $(BIN) .

# tool NAME, PACKAGE@VERSION builds .tools/bin/NAME unless it is that version already.
define tool
@go version -m $(TOOLS)/$(1) 2>/dev/null | tr '\t' ' ' | grep -Eq '^ mod .* $(lastword $(subst @, ,$(2)))( |$$)' || \
	{ echo "building $(2)"; GOBIN=$(TOOLS) GOFLAGS= go install $(2); }
endef

tools: tool-temporal ## build the pinned tools into .tools/bin
	$(call tool,golangci-lint,$(GOLANGCI_LINT))
	$(call tool,workflowcheck,$(WORKFLOWCHECK))
	$(call tool,govulncheck,$(GOVULNCHECK))

# The Temporal command line is not built where TEMPORAL_CLI or PATH has one.
tool-temporal:
	$(if $(TEMPORAL_CLI)$(shell command -v temporal),,$(call tool,temporal,$(TEMPORAL)))

postgres: build
	@$(BIN) dev --prepare

.PHONY: images compose-tools test-images
images: ## pull the images of the compose stack (FROM_SOURCE=1: build stand-ins where no registry can be reached)
	@deploy/images/$(if $(filter-out 0 no false,$(FROM_SOURCE)),from-source/build.sh,pull.sh)

compose-tools: ## install Docker Compose v2 where docker has none
	@deploy/images/compose-tools/install.sh

test-images: ## try the images in containers, and whether the binary is the same wherever it is built
	go vet -tags images ./deploy/images
	go test -timeout 25m -count 1 -tags images ./deploy/images

COMPOSE := docker compose -f deploy/compose/compose.yaml

.PHONY: secrets up down logs
secrets: ## make the passwords and tokens of the compose stack that are missing
	@go run ./deploy/compose/setup secrets

up: secrets build ## run the compose stack, and say where everything is (make images first)
	@$(COMPOSE) up -d --wait --build
	@go run ./deploy/compose/setup profile

down: ## end the compose stack; its data stays
	@$(COMPOSE) down

logs: ## follow the logs of the compose stack
	@$(COMPOSE) logs --follow --tail 100

clean: ## remove what was built and what runs left behind; the tools stay
	rm -rf bin harness/fencing-demo/out harness/bench/out
