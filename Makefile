# kernelsym: build, run and test. `make help` lists the targets.

ifneq ($(words $(CURDIR)),1)
$(error make cannot build in a directory whose path has spaces: $(CURDIR))
endif

MAKEFLAGS += --no-builtin-rules
# sudo leaves it out.
export PATH := $(PATH):/usr/local/go/bin
BUILD := build
comma := ,
TOOLS := $(CURDIR)/$(BUILD)/tools
export CGO_ENABLED ?= 0
# Without -trimpath, the build cache depends on the directory: a new clone would compile everything again.
export GOFLAGS := $(GOFLAGS) -buildvcs=false -trimpath

COLLECTOR := $(BUILD)/otelcol-kernelsym
TOOL := $(BUILD)/kernelsym
DEMO := $(BUILD)/demo
PROFILES := $(BUILD)/run/profiles.json

# What the binaries are made of.
SOURCES := $(shell find . -path ./$(BUILD) -prune -o -name '*.go' ! -name '*_test.go' -print) go.mod go.sum

# The race detector needs a C compiler. A binary with it sleeps for a second at its end unless it is told not to.
RACE := $(if $(shell PATH='$(PATH)'; command -v $$(go env CC)),-race)
export GORACE ?= atexit_sleep_ms=0

# Root builds as the owner of the tree, in whose caches the packages are: nothing in it becomes root's.
OWNER := $(shell ls -dn . | awk '{ print $$3 }')
ifeq ($(shell id -u),0)
ifneq ($(OWNER),0)
AS_OWNER := setpriv --reuid=$(OWNER) --regid=$(shell ls -dn . | awk '{ print $$4 }') --clear-groups \
	env -u GOCACHE -u GOMODCACHE -u GOPATH HOME=$(or $(shell getent passwd $(OWNER) | cut -d: -f6),$(CURDIR)/$(BUILD)/home)
endif
endif
AS_ROOT := internal/tools/as-root.sh

MODULE := github.com/kernelsym/kernelsym

# Packages whose tests need neither root nor the running kernel.
PURE := $(addprefix $(MODULE)/internal/,symtab timeline ledger symbolize otlp inline rewrite)

# Packages in which goroutines meet: their tests run with the race detector. At night, all do.
CONCURRENT := $(addprefix $(MODULE)/,kernelsymprocessor kernelstackreceiver admissionextension \
	$(addprefix internal/,admission bpfprog kernelstack packs kmod perfring symcache poller uevent))

# The other packages, those first whose tests take longest.
LONGEST := $(addprefix $(MODULE)/,internal/test/e2e cmd/kernelsym cmd/kernelsym/internal/bpfcost internal/rewrite)
OTHERS = $(LONGEST) $(filter-out $(LONGEST) $(CONCURRENT),$(shell go list ./...))

# The packages whose tests use the running kernel.
KERNEL_TESTS = $(shell go list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... | awk '/internal\/test\/kerneltest/ { print $$1 }')

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: $(COLLECTOR) $(TOOL) ## build the collector and the operator's tool

.PHONY: need-go
need-go: # a later Go gets the one that go.mod asks for
	@command -v go >/dev/null || { echo "Go is neither in PATH nor in /usr/local/go/bin: see https://go.dev/doc/install" >&2; exit 1; }
	@go version | awk '{ split(substr($$3, 3), v, "."); exit v[1] == 1 && v[2] < 21 }' || { echo "Go 1.21 or later is needed, not $$(go version)" >&2; exit 1; }

.PHONY: ready
ready: need-go # says at once what `make run` lacks: compiling takes minutes
	@$(AS_ROOT) $(if $(filter 0,$(shell id -u)),$(MAKE) --no-print-directory check)

.PHONY: check
check: $(DEMO)
	@$(DEMO) -check

.PHONY: run
run: ready build $(DEMO) ## sample this machine's kernel for 10 s, by sudo, and print the hottest functions
	@$(AS_OWNER) mkdir -p $(dir $(PROFILES)) && $(AS_OWNER) touch $(PROFILES) $(PROFILES).log
	@$(AS_ROOT) $(DEMO) -collector $(COLLECTOR) -tool $(TOOL) -output $(PROFILES)

.PHONY: view
view: $(TOOL) ## serve the flame graph of the last `make run`; HTTP=localhost:9090 says where
	@$(TOOL) view $(PROFILES) $(if $(HTTP),--http $(HTTP))

.PHONY: picture
picture: $(TOOL) ## draw docs/flamegraph.svg from PROFILES: that of TestPackStacks has modules, BPF and inlined functions
	$(TOOL) view --svg docs/flamegraph.svg $(PROFILES)

.PHONY: screenshot
screenshot: $(TOOL) ## take docs/flamegraph.png of that picture, and docs/top.png of `kernelsym top`, in chromium
	rm -rf $(BUILD)/chromium
	chromium --headless $(if $(filter 0,$(shell id -u)),--no-sandbox) --disable-gpu --disable-quic --no-first-run \
		--disable-background-networking --disable-component-update --disable-sync --user-data-dir=$(abspath $(BUILD))/chromium \
		--hide-scrollbars --window-size=1000,560 --screenshot=docs/flamegraph.png 'file://$(CURDIR)/docs/flamegraph.svg'
	$(AS_ROOT) internal/tools/top-picture.sh $(TOOL) docs/top.png

.PHONY: quick
quick: need-go ## run the tests of the pure packages, without root, in a minute
	@go test $(PURE)

.PHONY: test
test: export KERNELSYM_COLLECTOR := $(abspath $(COLLECTOR))
test: export KERNELSYM_TOOL := $(abspath $(TOOL))
test: build ## run the tests: pure, running kernel, built collector
	@echo 'go test, of packages in which goroutines meet $(if $(RACE),with,without) the race detector'
	@go test -count=1 -timeout 20m $(OTHERS) # no cached result: what the kernel returns is not part of its key
	@CGO_ENABLED=$(if $(RACE),1,0) go test -count=1 -timeout 20m $(RACE) -short $(CONCURRENT)

.PHONY: test-race
test-race: export KERNELSYM_COLLECTOR := $(abspath $(COLLECTOR))
test-race: export KERNELSYM_TOOL := $(abspath $(TOOL))
test-race: build ## run the tests of all packages with the race detector
	CGO_ENABLED=1 go test -count=1 -timeout 30m -race -short ./...

.PHONY: test-user
test-user: ## run the tests that use the running kernel as an ordinary user (as root)
	@[ "$$(id -u)" = 0 ] || { echo "SKIP: not root: make test has run the tests as an ordinary user"; exit 0; }; \
	go test -count=1 -timeout 20m -short -exec $(CURDIR)/internal/tools/as-nobody.sh $(KERNEL_TESTS)

.PHONY: test-deploy
test-deploy: export KERNELSYM_COLLECTOR := $(abspath $(COLLECTOR))
test-deploy: build ## run the tests of the files in deploy/: image, manifests, container
	go test -C internal/test/deploytest -count=1 ./...

.PHONY: test-backends
test-backends: export KERNELSYM_COLLECTOR := $(abspath $(COLLECTOR))
test-backends: build ## run the tests of what backends take: Elastic's exporter, pprof and, with its binary in KERNELSYM_PARCA, Parca
	@[ -n "$$KERNELSYM_PARCA" ] || echo "SKIP: KERNELSYM_PARCA does not name the binary of Parca 0.28.0: Parca is not asked what it stored"
	go test -C internal/test/backendtest -count=1 ./...

.PHONY: test-packs
test-packs: build ## compare packs of real kernels with llvm-symbolizer, addr2line and those kernels, and measure them: downloads 2 GB; KERNEL=6.1,6.12
	@go run ./internal/test/kerneltest/packs -kernel $(KERNEL) -tool $(TOOL) -collector $(COLLECTOR)

.PHONY: test-release
test-release: export KERNELSYM_COLLECTOR := $(abspath $(COLLECTOR))
test-release: export KERNELSYM_TOOL := $(abspath $(TOOL))
test-release: export KERNELSYM_DIST := $(abspath $(DIST))
test-release: build release-files ## test the packages, the module and the versions; DIST=build/dist tests the packages of `make snapshot`
	go test -C internal/test/releasetest -count=1 ./...

.PHONY: test-k8sattributes
test-k8sattributes: ## run the tests with the processor k8s_attributes; compiling it takes minutes
	go test -C internal/test/k8sattributestest -count=1 ./...

# Kubernetes, by its version.
KUBERNETES = $(BUILD)/kubernetes/$(shell go list -C internal/tools/kubernetes -m -f '{{.Version}}' k8s.io/kubernetes)

.PHONY: test-kubernetes
test-kubernetes: ## test the manifests in a Kubernetes of two nodes (as root, on Debian); the first time, Kubernetes is compiled for minutes
	@mkdir -p $(KUBERNETES)
	go build -C internal/tools/kubernetes -trimpath -o $(abspath $(KUBERNETES))/ \
		-ldflags '-s -w -X k8s.io/component-base/version.gitVersion=$(notdir $(KUBERNETES))' tool
	GOBIN=$(abspath $(KUBERNETES)) go install github.com/cloudnativelabs/kube-router/v2/cmd/kube-router@v2.1.0 # enforces NetworkPolicies
	KERNELSYM_KUBERNETES=$(abspath $(KUBERNETES)) go test -C internal/test/kubernetestest -count=1 -timeout 20m ./...

.PHONY: test-seccomp
test-seccomp: ## run the tests of what the default profiles of container runtimes allow
	go test -C internal/test/seccomptest -count=1 ./...

KERNEL ?= 6.12

# Without KERNEL and RUN, the tests of what differs from kernel to kernel run in another one, too.
BRIEF := $(if $(RUN)$(filter-out file,$(origin KERNEL)),,6.1)
DIFFERS := ^Test(Truth.*|Story.*|Privileges|Sampled.*|KernelStacksAreNamed|Contract_3_.*|NamesAreThoseOfTheKernel|SourceLines|\
Trampolines|BootPack|HiddenByTheSysctl|Ftrace|Kprobes|XDPDispatcher|MultiLinks|ModulesStayInTheirAreas|NoAddressIsInTheWrongModule|\
ListChangesWhileSymbolsAreRead|LinesThatAreLeftOut|Reload|WithoutRecords|WithoutAList|Located|Contract_10_5_RunningKernelIsLocated)$$
BRIEF_FLAGS = $(if $(BRIEF),-brief $(BRIEF) -brief-run '$(subst $() ,,$(DIFFERS))')

.PHONY: test-vm
test-vm: build ## run the tests in the kernels of a distribution, in virtual machines: KERNEL=6.1,6.12 RUN=Test V=1
	@go run ./internal/test/kerneltest/vm -kernel $(KERNEL) $(BRIEF_FLAGS) -collector $(COLLECTOR) -run '$(RUN)' $(if $(V),-v)
	@# What boots have in common, and what not, is the same in each kernel.
	@$(if $(RUN),,go run ./internal/test/kerneltest/vm -kernel $(firstword $(subst $(comma), ,$(KERNEL))) -collector $(COLLECTOR) \
		-run '^TestIdentityInEachBoot$$' -boots 2 ./internal/test/e2e)

LOCKDOWN ?= integrity confidentiality
LOCKDOWN_KERNEL ?= 6.1,6.12
VM := github.com/kernelsym/kernelsym/internal/test/kerneltest/vm -kernel $(LOCKDOWN_KERNEL) $(if $(V),-v)

.PHONY: test-lockdown
test-lockdown: build ## run the tests in kernels that are locked down, in virtual machines: LOCKDOWN=integrity LOCKDOWN_KERNEL=6.12 V=1
	@for mode in $(LOCKDOWN); do \
		go run $(VM) -append lockdown=$$mode -collector $(COLLECTOR) \
			-run '^Test(Lockdown|Privileges|KernelStacksAreNamed|SampledBPFCode|SampledModuleCode|Sleepers|Located)$$' \
			./internal/test/e2e ./internal/test/doctest ./cmd/kernelsym/internal/doctor ./internal/kernelstack && \
		go run -C internal/test/profilertest $(VM) -append lockdown=$$mode . && \
		go run -C internal/test/seccomptest $(VM) -append lockdown=$$mode . || exit 1; \
	done

.PHONY: bench
ifdef BASE
bench: # see below
	@internal/tools/bench-base.sh '$(BASE)' $(or $(TIMES),5) -rounds $(or $(ROUNDS),9) -run '$(or $(RUN),^(rewrite|split|lines|passthrough|lookup|table))'
else
bench: $(TOOL) ## print the measures of speed and memory (as root); BASE=COMMIT compares with a commit: RUN=rewrite TIMES=5 ROUNDS=9
	@mkdir -p $(BUILD) && go test -count=1 -v -run '^TestManyCPUs$$' ./internal/perfring >$(BUILD)/bench.log || { cat $(BUILD)/bench.log; exit 1; }
	@go run ./internal/test/bench -rounds $(or $(ROUNDS),31) -scale $(BUILD)/bench.log -tool $(TOOL)
endif

.PHONY: soak
soak: build ## run the collector for DURATION (10m) under load, and see that it does not grow (as root)
	@go run ./internal/test/soak -collector $(COLLECTOR) -duration $(or $(DURATION),10m)

.PHONY: soak-vm
soak-vm: build ## the same, with modules that come and go too, in a virtual machine
	@go run ./internal/test/kerneltest/vm -kernel 6.12 -collector $(COLLECTOR) -run '^TestSoak$$' \
		-env KERNELSYM_SOAK=$(or $(DURATION),10m) -timeout 1h ./internal/test/soak

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (10s)
	@internal/tools/fuzz.sh $(or $(FUZZTIME),10s)

# The packages of the components, and those that they use, without generated ones.
COVERED = $(shell go list -deps . ./kernelstackreceiver ./admissionextension | grep ^github.com/kernelsym/ | grep -v /metadata)
.PHONY: coverage
coverage: ## print the share of the components' statements that their tests cover, as an ordinary user (docs/dev/contrib.md)
	@[ "$$(id -u)" != 0 ] || { echo "root has tests that others do not: run this as an ordinary user" >&2; exit 1; }
	@mkdir -p $(BUILD)
	@go test -count=1 -coverprofile=$(BUILD)/coverage.out -coverpkg=$(subst $() ,$(comma),$(strip $(COVERED))) $(COVERED) \
		>$(BUILD)/coverage.log || { cat $(BUILD)/coverage.log; exit 1; }
	@go tool cover -func=$(BUILD)/coverage.out | tail -1

.PHONY: lint
lint: $(TOOLS)/golangci-lint ## check the code; for Linux, macOS and Windows; for arm64 and 32 bits
	$(TOOLS)/golangci-lint run
	cd internal/test/deploytest && $(TOOLS)/golangci-lint run
	cd internal/test/backendtest && $(TOOLS)/golangci-lint run
	cd internal/test/releasetest && $(TOOLS)/golangci-lint run
	cd internal/test/seccomptest && $(TOOLS)/golangci-lint run
	cd internal/test/profilertest && $(TOOLS)/golangci-lint run
	cd internal/test/kubernetestest && $(TOOLS)/golangci-lint run
	GOOS=darwin go vet ./...
	GOOS=windows go vet ./...
	GOARCH=arm64 go vet ./...
	GOARCH=386 go build ./...
	GOARCH=arm go build ./...
	GOARCH=arm64 go build -o /dev/null ./cmd/kernelsym
	$(MAKE) lint-workflows lint-changelog

.PHONY: lint-workflows
lint-workflows: $(TOOLS)/actionlint ## check .github/workflows
	$(TOOLS)/actionlint

.PHONY: lint-changelog
lint-changelog: $(TOOLS)/chloggen ## check the changelog entries in .chloggen
	@$(TOOLS)/chloggen validate --config .chloggen/config.yaml

.PHONY: changelog
changelog: $(TOOLS)/chloggen ## print the changelog of the next release
	@$(TOOLS)/chloggen update --dry --version next --config .chloggen/config.yaml

.PHONY: changelog-entry
changelog-entry: $(TOOLS)/chloggen ## start a changelog entry: NAME=short-name
	@$(TOOLS)/chloggen new --filename '$(NAME)' --config .chloggen/config.yaml

.PHONY: vulncheck
vulncheck: $(TOOLS)/govulncheck collector-sources ## check the code that the programs call against the vulnerability database
	$(TOOLS)/govulncheck ./...
	$(TOOLS)/govulncheck -C $(BUILD) . # the collector's other components are only in its own module

.PHONY: generate
generate: $(TOOLS)/mdatagen ## make the files that metadata.yaml describes
	@# mdatagen names a package after its directory.
	@mkdir -p $(BUILD)/generate && ln -sfn $(CURDIR) $(BUILD)/generate/kernelsym
	cd $(BUILD)/generate/kernelsym && $(TOOLS)/mdatagen metadata.yaml
	cd $(BUILD)/generate/kernelsym/kernelstackreceiver && $(TOOLS)/mdatagen metadata.yaml
	cd $(BUILD)/generate/kernelsym/admissionextension && $(TOOLS)/mdatagen metadata.yaml
	go run ./internal/tools/configdoc

.PHONY: privileges
privileges: build ## measure docs/privileges.md anew, here and in virtual machines (as root)
	go test ./internal/test/doctest -count=1 -run '^TestPrivileges$$' -update
	$(MAKE) test-vm KERNEL=6.1,6.12 RUN='^TestPrivileges$$' V=1 >$(BUILD)/privileges.log || true # it fails where the table has changed
	$(MAKE) test-lockdown LOCKDOWN_KERNEL=6.12 V=1 >>$(BUILD)/privileges.log || true # likewise
	go test ./internal/test/doctest -count=1 -run '^TestPrivilegesPage$$' -update -measured $(abspath $(BUILD))/privileges.log
	git diff --stat -- docs/privileges.md

# What `make generate` writes.
GENERATED = find . -path ./$(BUILD) -prune -o -type f \
	\( -name 'generated_*.go' -o -name config.schema.json -o -name documentation.md -o -name README.md -o -path ./docs/configuration.md \) -exec sha256sum {} + | sort -k2

.PHONY: check-generate
check-generate: ## check that what is generated is up to date
	@mkdir -p $(BUILD)/generate && $(GENERATED) >$(BUILD)/generate/before
	@$(MAKE) generate
	@$(GENERATED) | diff $(BUILD)/generate/before - || { echo "make generate has changed these files" >&2; exit 1; }

RELEASE := $(BUILD)/release
VERSION_NOW := $(shell sed -n 's/^const version = "\(.*\)"$$/\1/p' cmd/kernelsym/main.go)

# The files that contain the version. A test compares them.
VERSIONED := cmd/kernelsym/main.go builder-config.yaml deploy/Dockerfile deploy/README.md deploy/helm/values.yaml deploy/helm/kube-stack-values.yaml \
	deploy/operator/collector.yaml \
	deploy/kubernetes/base/kustomization.yaml deploy/kubernetes/components/gateway/kustomization.yaml

# The manifests that users copy. They have the last release: until the next one, nothing else can be downloaded.
MANIFESTS := docs/collector.md doc.go

.PHONY: set-version
set-version: ## change the version of the source: VERSION=0.2.0
	@test -n '$(VERSION)' || { echo "usage: make set-version VERSION=0.2.0" >&2; exit 1; }
	sed -i 's/$(subst .,\.,$(VERSION_NOW))/$(VERSION)/' $(VERSIONED)
	$(if $(filter %-dev,$(VERSION)),,sed -i 's,\(gomod: github.com/kernelsym/kernelsym\) v.*,\1 v$(VERSION),' $(MANIFESTS))

.PHONY: check-version
check-version: ## check that VERSION is the version of the source and, unless it ends in -dev, of the changelog
	@test '$(VERSION)' = '$(VERSION_NOW)' || { echo "the source has version $(VERSION_NOW), not '$(VERSION)'; see RELEASING.md" >&2; exit 1; }
	@case '$(VERSION)' in *-dev) ;; *) $(MAKE) --no-print-directory release-notes >/dev/null ;; esac

.PHONY: release-notes
release-notes: ## print the changelog of this version
	@awk -v heading='## v$(VERSION_NOW)' '/^## / { on = $$0 == heading; found += on; next } on; END { exit !found }' CHANGELOG.md || \
		{ echo "CHANGELOG.md has no section v$(VERSION_NOW); see RELEASING.md" >&2; exit 1; }

.PHONY: snapshot
snapshot: export SNAPSHOT_VERSION := $(VERSION_NOW)
snapshot: $(TOOLS)/goreleaser ## build the release's files, unsigned, in build/dist
	$(TOOLS)/goreleaser check
	$(TOOLS)/goreleaser release --snapshot --clean --skip=sbom,sign,docker

.PHONY: release
release: $(TOOLS)/goreleaser ## draft the release of the current tag; the workflow runs this
	@mkdir -p $(BUILD) && $(MAKE) --no-print-directory release-notes >$(BUILD)/notes.md
	$(TOOLS)/goreleaser release --clean --release-notes $(BUILD)/notes.md

# The packaged unit runs the packaged binary, and needs no comment on how to install it.
.PHONY: release-files
release-files: $(TOOL) ## generate the man pages, completions and unit of the packages
	rm -rf $(RELEASE)
	mkdir -p $(RELEASE)/man $(RELEASE)/completions
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)} $(TOOL) man $(RELEASE)/man
	gzip -9n $(RELEASE)/man/*
	$(TOOL) completion bash >$(RELEASE)/completions/kernelsym.bash
	$(TOOL) completion zsh >$(RELEASE)/completions/_kernelsym
	$(TOOL) completion fish >$(RELEASE)/completions/kernelsym.fish
	sed -e '1,/^\[Unit\]/{/^#/d}' -e 's,/usr/local/bin/,/usr/bin/,' deploy/systemd/otelcol-kernelsym.service >$(RELEASE)/otelcol-kernelsym.service

.PHONY: collector-sources
collector-sources: $(TOOLS)/builder ## generate the sources of the collector in build
	$(TOOLS)/builder --config builder-config.yaml --skip-compilation

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BUILD)

GO_BUILD := $(AS_OWNER) internal/tools/gobuild.sh

$(COLLECTOR): builder-config.yaml $(SOURCES) | $(TOOLS)/builder
	@echo "Compiling a collector. The first time this takes minutes."
	$(AS_OWNER) $(TOOLS)/builder --config builder-config.yaml --skip-compilation
	$(GO_BUILD) "the collector" $(BUILD) $@ . -trimpath -ldflags '-s -w'
	@$(AS_OWNER) touch $@

$(TOOL): $(SOURCES) | need-go
	$(GO_BUILD) "the tool" . $@ ./cmd/kernelsym -trimpath

$(DEMO): $(SOURCES) | need-go
	$(GO_BUILD) "the demonstration" . $@ ./internal/test/demo -trimpath

$(TOOLS)/builder: PACKAGE := go.opentelemetry.io/collector/cmd/builder
$(TOOLS)/mdatagen: PACKAGE := go.opentelemetry.io/collector/cmd/mdatagen
$(TOOLS)/golangci-lint: PACKAGE := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(TOOLS)/chloggen: PACKAGE := go.opentelemetry.io/build-tools/chloggen
$(TOOLS)/govulncheck: PACKAGE := golang.org/x/vuln/cmd/govulncheck

# Each of these needs other versions of its dependencies than the tools in internal/tools/pinned.
$(TOOLS)/goreleaser: Makefile
	GOOS= GOARCH= GOBIN=$(TOOLS) go install github.com/goreleaser/goreleaser/v2@v2.16.0 # later versions need a later Go

$(TOOLS)/actionlint: Makefile
	GOOS= GOARCH= GOBIN=$(TOOLS) go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

$(TOOLS)/%: internal/tools/pinned/go.mod | need-go
	@$(AS_OWNER) mkdir -p $(TOOLS)
	GOOS= GOARCH= $(GO_BUILD) "$(notdir $@)" internal/tools/pinned $@ $(PACKAGE) # it runs here, whatever the rest is built for
