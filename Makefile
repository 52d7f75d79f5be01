# The front door. `make` builds build/tandem; everything else is a thin line over CMakePresets.json.
PRESET ?= release
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
BUILD := $(if $(filter release,$(PRESET)),build,build-$(PRESET))
SANITIZERS := asan ubsan asan-ubsan tsan

.PHONY: all help install-deps configure test nightly attack demo bench bench-peers sanitize tidy install clean $(SANITIZERS)

all: configure
	cmake --build $(BUILD) --target tandem -j $(JOBS)

help:
	@echo "make              release build at build/tandem"
	@echo "make test         install what is missing, build everything, run every test   (PRESET=ci: warnings are errors)"
	@echo "make nightly      300 random plans against one rank and the simulator, 300 padded vocabularies, 400 folded"
	@echo "make attack       damaged inputs, kills and outputs over inputs at random, four minutes   (SEED=N; TANDEM=program)"
	@echo "make demo         install what is missing, build, simulate, train, compare, draw into out/demo"
	@echo "make install-deps install what packages.txt lists and the machine lacks"
	@echo "make bench        run the benchmarks of experiments/bench"
	@echo "make bench-peers  the same cases by other simulators, where they are installed: experiments/bench/peers"
	@echo "make sanitize     every test under address+undefined sanitizers, the threaded ones under the thread sanitizer"
	@echo "make asan|ubsan|tsan|asan-ubsan   one of them; make tidy: clang with clang-tidy"
	@echo "make install      install into /usr/local or PREFIX=...; make clean: remove build trees and out/"

install-deps:
	@./cmake/install_deps.sh

configure:
	@[ -f $(BUILD)/build.ninja ] || ./cmake/configure.sh $(PRESET)

test: install-deps
	@$(MAKE) --no-print-directory configure PRESET=$(PRESET)
	cmake --build $(BUILD) -j $(JOBS)
	ctest --preset $(PRESET) -j $(JOBS)

nightly:
	@$(MAKE) --no-print-directory test PRESET=nightly

attack: $(if $(TANDEM),,all)
	TANDEM=$(or $(TANDEM),$(BUILD)/tandem) TANDEM_SOURCE=. python3 tests/attack/attack.py $(if $(SEED),--seed $(SEED))

demo: install-deps
	@$(MAKE) --no-print-directory all
	./experiments/demo.sh build/tandem out/demo

bench: configure
	cmake --build $(BUILD) --target bench -j $(JOBS)

bench-peers: configure
	cmake --build $(BUILD) --target bench-peers -j $(JOBS)

$(SANITIZERS):
	@$(MAKE) --no-print-directory test PRESET=$@

sanitize: asan-ubsan tsan

tidy:
	@$(MAKE) --no-print-directory configure PRESET=tidy
	cmake --build build-tidy -j $(JOBS)

install: all
	cmake --build $(BUILD) -j $(JOBS)
	cmake --install $(BUILD) $(if $(PREFIX),--prefix $(PREFIX))

clean:
	rm -rf build $(addprefix build-,dev ci nightly tidy $(SANITIZERS)) out
