# kernelsym: build, run and test. `make help` lists the targets.

MAKEFLAGS += --no-builtin-rules
BUILD := build
TOOLS := $(CURDIR)/$(BUILD)/tools
export CGO_ENABLED ?= 0
export GOFLAGS := $(GOFLAGS) -buildvcs=false

COLLECTOR := $(BUILD)/otelcol-kernelsym
TOOL := $(BUILD)/kernelsym
DEMO := $(BUILD)/demo
PROFILES := $(BUILD)/run/profiles.json

# What the binaries are made of.
SOURCES := $(shell find . -path ./$(BUILD) -prune -o -name '*.go' ! -name '*_test.go' -print) go.mod go.sum

# The race detector needs a C compiler.
RACE := $(if $(shell command -v $$(go env CC)),-race)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: $(COLLECTOR) $(TOOL) ## build the collector and the operator's tool

.PHONY: run
run: build $(DEMO) ## sample this machine's kernel for 10 s and print the hottest functions (as root)
	@$(DEMO) -collector $(COLLECTOR) -tool $(TOOL) -output $(PROFILES)

.PHONY: view
view: $(TOOL) ## serve the flame graph of the last `make run`; HTTP=localhost:9090 says where
	@$(TOOL) view $(PROFILES) $(if $(HTTP),--http $(HTTP))

.PHONY: test
test: export KERNELSYM_COLLECTOR := $(abspath $(COLLECTOR))
test: export KERNELSYM_TOOL := $(abspath $(TOOL))
test: build test-deploy test-backends ## run the tests: pure, running kernel, built collector, deployment, backends
	CGO_ENABLED=$(if $(RACE),1,0) go test -count=1 $(RACE) ./... # what the kernel says is in no cache of results

.PHONY: test-deploy
test-deploy: export KERNELSYM_COLLECTOR := $(abspath $(COLLECTOR))
test-deploy: build ## run the tests of what stands in deploy/: image, manifests, container
	go test -C internal/deploytest -count=1 ./...

.PHONY: test-backends
test-backends: export KERNELSYM_COLLECTOR := $(abspath $(COLLECTOR))
test-backends: build ## run the tests of what backends take: Elastic's exporter, pprof
	go test -C internal/backendtest -count=1 ./...

KERNEL ?= 6.1,6.12

.PHONY: test-vm
test-vm: build ## run the tests in the kernels of a distribution, in virtual machines: KERNEL=6.1,6.12 RUN=Test V=1
	@go run ./internal/kerneltest/vm -kernel $(KERNEL) -collector $(COLLECTOR) -run '$(RUN)' $(if $(V),-v)
	@$(if $(RUN),,go run ./internal/kerneltest/vm -kernel $(KERNEL) -collector $(COLLECTOR) -run '^TestIdentityInEachBoot$$' -boots 2 ./internal/e2e)

.PHONY: bench
bench: ## print the measures of speed and memory (as root)
	@go run ./internal/bench -rounds $(or $(ROUNDS),31)

.PHONY: soak
soak: build ## run the collector for DURATION (10m) under load, and see that it does not grow (as root)
	@go run ./internal/soak -collector $(COLLECTOR) -duration $(or $(DURATION),10m)

.PHONY: soak-vm
soak-vm: build ## the same, with modules that come and go too, in a virtual machine
	@go run ./internal/kerneltest/vm -kernel 6.12 -collector $(COLLECTOR) -run '^TestSoak$$' \
		-env KERNELSYM_SOAK=$(or $(DURATION),10m) -timeout 1h ./internal/soak

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (10s)
	@internal/tools/fuzz.sh $(or $(FUZZTIME),10s)

.PHONY: lint
lint: $(TOOLS)/golangci-lint ## check the code; for Linux, another system and arm64
	$(TOOLS)/golangci-lint run
	cd internal/deploytest && $(TOOLS)/golangci-lint run
	cd internal/backendtest && $(TOOLS)/golangci-lint run
	GOOS=darwin go vet ./...
	GOARCH=arm64 go vet ./...
	GOARCH=arm64 go build -o /dev/null ./cmd/kernelsym

.PHONY: generate
generate: $(TOOLS)/mdatagen ## make the files that metadata.yaml describes
	@# mdatagen names a package after its directory.
	@mkdir -p $(BUILD)/generate && ln -sfn $(CURDIR) $(BUILD)/generate/kernelsym
	cd $(BUILD)/generate/kernelsym && $(TOOLS)/mdatagen metadata.yaml
	cd $(BUILD)/generate/kernelsym/kernelstackreceiver && $(TOOLS)/mdatagen metadata.yaml
	go run ./internal/configdoc

.PHONY: privileges
privileges: build ## measure docs/privileges.md anew, here and in a virtual machine (as root)
	go test ./internal/doctest -count=1 -run '^TestPrivileges$$' -update
	$(MAKE) test-vm KERNEL=6.12 RUN='^TestPrivileges$$' V=1 >$(BUILD)/privileges.log || true # it fails where the table has changed
	go test ./internal/doctest -count=1 -run '^TestPrivilegesPage$$' -update -measured $(abspath $(BUILD))/privileges.log
	git diff --stat -- docs/privileges.md

# What `make generate` writes.
GENERATED = find . -path ./$(BUILD) -prune -o -type f \
	\( -name 'generated_*.go' -o -name config.schema.json -o -name documentation.md -o -path ./docs/configuration.md \) -exec sha256sum {} + | sort -k2

.PHONY: check-generate
check-generate: ## check that what is generated is up to date
	@mkdir -p $(BUILD)/generate && $(GENERATED) >$(BUILD)/generate/before
	@$(MAKE) generate
	@$(GENERATED) | diff $(BUILD)/generate/before - || { echo "make generate has changed these files" >&2; exit 1; }

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BUILD)

$(COLLECTOR): builder-config.yaml $(SOURCES) | $(TOOLS)/builder
	@echo "Compiling a collector. The first time this takes minutes, in which nothing is printed."
	$(TOOLS)/builder --config builder-config.yaml
	@touch $@

$(TOOL): $(SOURCES)
	go build -trimpath -o $@ ./cmd/kernelsym

$(DEMO): $(SOURCES)
	go build -trimpath -o $@ ./internal/demo

$(TOOLS)/builder: PACKAGE := go.opentelemetry.io/collector/cmd/builder
$(TOOLS)/mdatagen: PACKAGE := go.opentelemetry.io/collector/cmd/mdatagen
$(TOOLS)/golangci-lint: PACKAGE := github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(TOOLS)/%: internal/tools/go.mod
	@mkdir -p $(TOOLS)
	GOOS= GOARCH= go build -C internal/tools -o $@ $(PACKAGE) # it runs here, whatever the rest is built for
