# Lazaret. `make help` lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help

GO      ?= go
BIN     := bin
DATA    ?= data
LISTEN  ?= 127.0.0.1:4222
DAEMONS := ingest sentinels arbiter auditor
# A binary is the same whichever folder it is built in.
TRIMPATH ?= -trimpath

# Packages that start goroutines or share memory are raced; the others are pure. The programs
# themselves are raced by the end-to-end tests that internal/e2e/race_on_test.go names.
# Tests of the packages in SINGLE run one goroutine, or have their goroutines raced by internal/e2e
# (the front, the verbs), so that the detector would see nothing in them.
SINGLE := arbiter|bench|chaos|chaos/mutants|cli/[a-z]+|containment|ingest|malformed|memorytool|replay|suggest|token
RACE   := grep -rlE --include=*.go '^	*go [^ ]+[(]|[.]Go[(]|"sync|"net/http|t[.]Parallel' client internal cmd | xargs -n1 dirname | sort -u | sed 's|^|./|' | \
	grep -vxE './internal/($(SINGLE))'
# The first two of these tests of raced packages take a minute in a store, by one goroutine. The third one compares how
# fast two goroutines are, which the detector does not slow down alike.
RACE_SKIP := TestPromiseA7NoEditOfAStateFolderChangesAValue|TestTheStateIsWhatAMapWouldBe|TestUnderABacklogIngestKeepsUpWithTheFeed

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

.PHONY: build
build: ## build the binaries into bin/; a daemon is lazaret under the daemon's name
	@mkdir -p $(BIN)
	@echo "building the programs: minutes the first time, seconds after that"
	$(GO) build $(TRIMPATH) -ldflags="-s -w" -o $(BIN)/ ./cmd/lazaret ./cmd/lazaret-hook
	@for d in $(DAEMONS); do ln -sf lazaret $(BIN)/$$d; done

.PHONY: run
run: build ## build and start the whole pipeline, data under ./data
	$(BIN)/lazaret up --data $(DATA) --listen $(LISTEN)

.PHONY: demo
demo: build ## replay one poisoned session through a real pipeline and show what became of it
	@$(BIN)/lazaret demo

.PHONY: test
test: fmt-check quick ## every package and the main ways end to end: some ten minutes on two cores

.PHONY: ci
ci: test rest ## all that CI runs: some 70 minutes on two cores

.PHONY: rest
rest: vet staticcheck kubernetes long race mutants ## the part of CI that make test leaves out

# $(call test,FLAGS,PACKAGES) runs go test. With RERUN=1, as in CI, gotestsum runs a failed
# test a second time and names it in its summary; a data race or five failures end the run.
ifdef RERUN
test = $(GO) run gotest.tools/gotestsum@v1.13.0 --format pkgname-and-test-fails --hide-summary skipped --rerun-fails=1 --rerun-fails-run-root-test \
	--rerun-fails-max-failures 4 --rerun-fails-abort-on-data-race --packages "$(2)" -- $(1)
else
test = $(GO) test $(1) $(2)
endif

# Tests of more than some seconds are shorter in a quick run, or left out: those that ask for testing.Short(),
# and those that begin with long(t). A long run takes them whole.
IN_LONG    := testing[.]Short|malformed[.]Requests|proptest[.](Times|CheckLess)[(]t,|^	long[(]t[)]
LONG_TESTS := grep -rlE --include=*_test.go '$(IN_LONG)' client cmd internal pkg | xargs awk '/^func /{n=$$2; sub("[(].*","",n)} \
	n~/^Test/ && n!="TestMain" && /$(IN_LONG)/{d=FILENAME; sub("/[^/]*$$","",d); print "./" d, n}'

# make rest runs go vet, so the tests leave it out: it takes a minute of processor time.
.PHONY: quick
quick:
	$(call test,-vet=off -short -timeout 20m -p 3,./...)

.PHONY: long
long:
	$(call test,-vet=off -timeout 60m -p 3 -run "^($$($(LONG_TESTS) | cut -d' ' -f2 | sort -u | paste -sd'|'))$$",$$($(LONG_TESTS) | cut -d' ' -f1 | sort -u))

.PHONY: fmt-check
fmt-check:
	@bad=$$(gofmt -l cmd internal pkg probes streams rules); if [ -n "$$bad" ]; then echo "not gofmt-ed:"; echo "$$bad"; exit 1; fi

.PHONY: vet
vet:
	$(GO) vet ./...

.PHONY: staticcheck
staticcheck:
	$(GO) tool staticcheck ./...

.PHONY: lint
lint: ## golangci-lint with .golangci.yml; its first run compiles it for minutes
	$(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0 run ./...

.PHONY: race
race:
	$(call test,-vet=off -race -short -timeout 40m -p 2 -skip '^($(RACE_SKIP))$$',$$($(RACE)))
	$(call test,-vet=off -race -run ARememberedAnalysis,./internal/ingest)

.PHONY: mutants
mutants: ## break the pipeline in sixteen ways, one after the other, and see that chaos or a test convicts each
	$(GO) run ./internal/chaos/mutants

.PHONY: kubernetes
kubernetes: ## build the kustomize files and decode them strictly, in a module of its own
	cd deploy/kubernetes/check && $(GO) vet ./... && $(GO) test ./...

.PHONY: test-long
test-long: ## the long forms: kills over and over, each fuzz target for FUZZTIME
	LAZARET_KILL_EVENTS=20000 $(GO) test ./internal/e2e -run 'Killing|AlwaysHeld|Standby' -count=5 -timeout 60m
	LAZARET_PROPOSALS=2000 $(GO) test ./internal/e2e -run 'KillingArbiterAnd' -count=5 -timeout 60m
	LAZARET_BENCH=1 $(GO) test ./internal/e2e -run 'TestAHookIsFast' -v
	LAZARET_HISTORIES=10000 $(GO) test ./internal/ingest -run 'NoHistory' -timeout 60m
	LAZARET_MODEL=full $(GO) test ./internal/arbiter -run 'TestTheBarrierHolds' -timeout 120m
	LAZARET_ATTACKS=10000 LAZARET_CRASHES=5000 $(GO) test ./pkg/chain -run 'Attack|Crash' -timeout 60m
	$(GO) test -race ./internal/... -timeout 60m
	$(MAKE) fuzz

.PHONY: bench
bench: build ## run every benchmark and print one table with the budgets; exit 2 on a miss (BENCH=--long for all)
	$(BIN)/lazaret bench all $(BENCH)

FUZZTIME ?= 1m

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (1m) and print a table
	$(GO) run ./internal/fuzztest/all -time $(FUZZTIME)

.PHONY: screenshots
screenshots: ## take the pictures of the console that docs/console.md shows (needs chromium)
	mkdir -p docs/console
	LAZARET_SCREENSHOTS=$(CURDIR)/docs/console $(GO) test -count=1 ./internal/console -run 'TestEveryPageIsAccessible'
	cd docs/console && ls | grep -vE '^console-(now|hold|hold-dark|session|alerts|phone)\.webp$$' | xargs -r rm --

.PHONY: fmt
fmt: ## format the code
	gofmt -w cmd internal pkg probes streams rules

.PHONY: generate
generate: ## make generated files anew (schemas, error codes)
	$(GO) generate ./...

.PHONY: clean
clean: ## remove what was built; leaves data alone
	rm -rf $(BIN)
