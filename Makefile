# build  demo  test  unit  test-vm  e2e  controlplane  lint  golden  fuzz  bench  install  clean  — "make" alone builds.
PREFIX ?= /usr/local
DESTDIR ?=
GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

# The version is linked in; -trimpath keeps this machine's paths out of the binary.
BUILD = $(GO) build -trimpath -ldflags '-X main.release=$(VERSION)'
# A tool of its own version, without becoming a dependency of the product.
STATICCHECK = $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: all build demo test unit test-vm e2e controlplane lint golden fuzz bench install clean
all: build

build:
	CGO_ENABLED=0 $(BUILD) -o bin/lb-render ./cmd/lb-render

# Runs the agent on the manifests of examples/haproxy, with output below ./out.
# CLUSTER=real runs it on a real control plane in the place of manifests.
# DEMO_KEEP=1 leaves it running.
demo: build $(if $(filter real,$(CLUSTER)),controlplane)
	@CLUSTER=$(CLUSTER) sh scripts/demo.sh

# Everything. The first time, most of it is the build of the control plane.
test: lint unit test-vm e2e

unit: build
	$(GO) test -race -timeout 40m ./...

# What needs a kernel with IPVS, in a virtual machine (test/vm). It wants root and
# apt-get, for QEMU, a kernel and ipvsadm; elsewhere it is left out, and says so.
test-vm: build
	cd test/vm && $(GO) test -count=1 -timeout 20m -v .

# The binary against a real control plane (test/e2e). Some of the tests wait more
# than they work, so there may be more of them at once than cores.
e2e: controlplane
	cd test/e2e && $(GO) test -race -count=1 -timeout 40m -parallel 2 ./...

# etcd, kube-apiserver and kube-controller-manager in one binary, from Go modules.
controlplane: bin/controlplane

bin/controlplane: $(wildcard test/controlplane/*.go) test/controlplane/go.mod test/controlplane/go.sum
	cd test/controlplane && $(GO) build -trimpath -ldflags '-s -w' -o ../../bin/controlplane .

lint:
	@test -z "$$(gofmt -l cmd examples internal systemd test)" || { echo "gofmt:"; gofmt -l cmd examples internal systemd test; exit 1; }
	$(GO) mod tidy -diff
	$(GO) vet ./...
	$(STATICCHECK) ./...
	cd test/e2e && $(GO) mod tidy -diff && $(GO) vet ./... && $(STATICCHECK) ./...
	cd test/vm && $(GO) mod tidy -diff && $(GO) vet ./... && $(STATICCHECK) ./...

# Rewrites the golden files; read the diff.
golden:
	$(GO) test ./internal/template ./examples -update

# A minute for each fuzz target.
fuzz:
	@set -e; for p in $$(grep -rl '^func Fuzz' --include='*_test.go' internal | xargs -n1 dirname | sort -u); do \
		for f in $$(grep -rhoE '^func Fuzz[A-Za-z0-9_]+' $$p/*_test.go | cut -c6-); do \
			echo "== $$p $$f"; $(GO) test ./$$p -run '^$$' -fuzz "^$$f$$" -fuzztime 60s; done; done

# Every figure of docs/performance.md, which is rewritten, in one run. out/bench.txt is what
# benchstat takes. Let nothing else run meanwhile; it takes some 12 minutes on two cores.
BENCH = $(GO) test -run '^$$' -timeout 60m -count $(BENCH_COUNT)
BENCH_COUNT ?= 10
bench: build
	@mkdir -p out
	@{ \
	$(BENCH) -bench '^BenchmarkEvent$$' -benchtime 20x ./test/bench && \
	$(BENCH) -bench '^BenchmarkRender$$/^(plain|full)$$' -benchtime 3x ./test/bench && \
	$(BENCH) -bench '^BenchmarkRender$$/^(one|one-not-copying|percent)$$' -benchtime 100x ./test/bench && \
	$(BENCH) -bench '^BenchmarkBuild$$/^all$$' -benchtime 1x ./internal/watcher && \
	$(BENCH) -bench '^BenchmarkBuild$$/^(slice|heartbeat)$$' -benchtime 1000x ./internal/watcher && \
	$(BENCH) -bench '^BenchmarkRules$$' -benchtime 20x ./internal/ipvs && \
	$(GO) test -run '^$$' -timeout 60m -bench '^BenchmarkPeakRSS$$' -benchtime 1x ./test/bench; \
	} > out/bench.txt.new || { cat out/bench.txt.new; exit 1; }
	@mv out/bench.txt.new out/bench.txt
	$(GO) run ./test/bench/table out/bench.txt docs/performance.md
	@sed -n '/made by make bench/,/<!-- end/p' docs/performance.md

install: build
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(PREFIX)/share/lb-render/templates
	install -m 0755 bin/lb-render $(DESTDIR)$(PREFIX)/bin/lb-render
	install -m 0644 templates/*.tmpl $(DESTDIR)$(PREFIX)/share/lb-render/templates/
	install -d $(DESTDIR)$(PREFIX)/share/lb-render/examples
	cp -R examples/haproxy examples/ipvs examples/kubernetes $(DESTDIR)$(PREFIX)/share/lb-render/examples/
	cp -R systemd/lb-render.service.d $(DESTDIR)$(PREFIX)/share/lb-render/examples/
	sed 's|/usr/local/bin/|$(PREFIX)/bin/|' systemd/lb-render.service > $(DESTDIR)$(PREFIX)/lib/systemd/system/lb-render.service
	chmod 0644 $(DESTDIR)$(PREFIX)/lib/systemd/system/lb-render.service

clean:
	rm -rf bin out
