# keyhole: build, test, install. `make help` lists the targets.
VERSION := 0.1.0
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBEXECDIR ?= $(PREFIX)/libexec/keyhole
DATADIR ?= $(PREFIX)/share
MANDIR ?= $(DATADIR)/man
UNITDIR ?= $(PREFIX)/lib/systemd/system
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
BASHCOMPDIR ?= $(DATADIR)/bash-completion/completions
ZSHCOMPDIR ?= $(DATADIR)/zsh/site-functions

# VARIANT: asan, fuzz or cov; each has a folder of its own under build/.
VARIANT ?=
B := build$(if $(VARIANT),/$(VARIANT))
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
quiet := $(findstring s,$(firstword -$(MAKEFLAGS)))
say = $(if $(filter 1,$(V)),,@$(if $(quiet),,printf '  %-7s %s\n' '$(1)' '$(2)';))
, := ,

# All cores, unless -j says otherwise.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2)
endif

.PHONY: all
all: ## build build/keyhole and build/keyhole-init (the default)

# --- what the build needs; targets that bring it themselves, or need none of it, don't ask for it
PKGS := openssl libevent libevent_pthreads libcares libnghttp2 yaml-0.1 libseccomp jansson libpsl libmaxminddb
SELF_RELIANT := help clean deps demo test bench format uninstall lint-text
ifneq ($(filter-out $(SELF_RELIANT),$(or $(MAKECMDGOALS),all)),)
BUILDS := 1
ifeq ($(shell command -v pkg-config 2>/dev/null),)
$(error pkg-config is missing. Run: deploy/install-deps.sh build)
endif
MISSING := $(shell for p in $(PKGS); do pkg-config --exists $$p || echo $$p; done)
ifneq ($(MISSING),)
$(error missing: $(MISSING). Run: deploy/install-deps.sh build)
endif
ifeq ($(shell command -v $(lastword $(CC)) 2>/dev/null),)
$(error no compiler "$(CC)". Run: deploy/install-deps.sh build (lint brings clang))
endif
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS))
PKG_LIBS := $(shell pkg-config --libs $(PKGS))
endif

# --- flags
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wformat=2 -Wdate-time \
	-Wstrict-prototypes -Wmissing-prototypes -Wcast-qual -Wwrite-strings -Wvla -Wswitch-enum -Werror
HARDEN := -fstack-protector-strong -fstack-clash-protection -fcf-protection=full -fPIE
HARDEN_LD := -pie -Wl,-z,relro,-z,now,-z,noexecstack
ifneq ($(filter-out x86_64 i386 i686,$(shell uname -m)),)
HARDEN := $(filter-out -fcf-protection=full,$(HARDEN))
endif
OPT := -O2 -g
FORTIFY := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3
INIT_OPT := -Os -g -ffunction-sections -fdata-sections
INIT_HARDEN := $(HARDEN) $(FORTIFY)
ifneq ($(filter asan fuzz,$(VARIANT)),)
# Lines are all that a report needs, and of a hundred programs a quick linker makes half as much work.
OPT := -O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
FORTIFY :=
HARDEN := -fPIE
HARDEN_LD := -pie $(if $(findstring clang,$(CC)),,$(if $(shell command -v ld.gold 2>/dev/null),-fuse-ld=gold))
endif
ifeq ($(VARIANT),fuzz)
OPT += -fsanitize=fuzzer-no-link
endif
ifeq ($(VARIANT),cov)
OPT := -O0 -g --coverage
FORTIFY :=
endif
CFLAGS ?=
LDFLAGS ?=
# The same bytes wherever the tree lies.
PREFIX_MAP := -ffile-prefix-map=$(CURDIR)=.
BASE_CFLAGS = -std=c17 -D_GNU_SOURCE $(WARN) -Iinclude $(PREFIX_MAP) -DKH_VERSION='"$(VERSION)"' -MMD -MP
# Only these two know where things are installed: another PREFIX compiles nothing else.
PREFIX_SRC := src/config/preset.c src/sandbox/sandbox.c
PREFIX_DEFS := -DKH_LIBEXECDIR='"$(LIBEXECDIR)"' -DKH_DATADIR='"$(DATADIR)/keyhole"'
KH_CFLAGS = $(BASE_CFLAGS) $(OPT) $(HARDEN) $(FORTIFY) $(PKG_CFLAGS) $(CFLAGS)
INIT_CFLAGS = $(BASE_CFLAGS) $(INIT_OPT) $(INIT_HARDEN) $(CFLAGS)

# Another compiler or another flag: everything is built anew.
ifdef BUILDS
FLAGS := $(filter-out ccache,$(CC)) $(shell $(CC) --version 2>/dev/null | head -n 1) | $(KH_CFLAGS) \
	| $(INIT_CFLAGS) | $(HARDEN_LD) $(LDFLAGS) $(PKG_LIBS)
ifneq ($(strip $(file <$(B)/flags)),$(strip $(FLAGS)))
$(shell mkdir -p $(B))
$(file >$(B)/flags,$(strip $(FLAGS)))
endif
ifneq ($(strip $(file <$(B)/prefix)),$(strip $(PREFIX_DEFS)))
$(shell mkdir -p $(B))
$(file >$(B)/prefix,$(strip $(PREFIX_DEFS)))
endif
endif

# --- the library and the two binaries
LIB_SRC := $(sort $(wildcard $(addsuffix /*.c,$(addprefix src/,base config policy net tls http credential \
	llm audit lockin loop upstream exchange downstream admin fetcher worker keeper \
	sandbox sandbox/engines))))
CLI_SRC := $(sort $(wildcard src/cli/*.c))
INIT_SRC := $(sort $(wildcard src/init/*.c))
obj = $(patsubst %.c,$(B)/obj/%.o,$(1))

all: $(B)/keyhole $(B)/keyhole-init

$(call obj,$(PREFIX_SRC)): $(B)/prefix
$(call obj,$(PREFIX_SRC)) $(PREFIX_SRC:%.c=build/tidy/%.ok): BASE_CFLAGS += $(PREFIX_DEFS)
$(B)/obj/src/init/%.o: src/init/%.c $(B)/flags
	$(call say,CC,$<)mkdir -p $(@D) && $(CC) $(INIT_CFLAGS) -c -o $@ $<

$(B)/obj/%.o: %.c $(B)/flags
	$(call say,CC,$<)mkdir -p $(@D) && $(CC) $(KH_CFLAGS) -c -o $@ $<

$(B)/libkeyhole.a: $(call obj,$(LIB_SRC))
	$(call say,AR,$@)rm -f $@ && $(AR) rcsD $@ $^

$(B)/keyhole: $(call obj,$(CLI_SRC)) $(B)/libkeyhole.a
	$(call say,LD,$@)$(CC) $(OPT) $(HARDEN_LD) $(LDFLAGS) -o $@ $^ $(PKG_LIBS) -lpthread

# Static, without a run-time dependency: it runs in any root. No sanitizer goes in.
$(B)/keyhole-init: $(call obj,$(INIT_SRC))
	$(call say,LD,$@)$(CC) $(INIT_OPT) -static-pie -s -Wl,--gc-sections -Wl,-z,relro,-z,now,-z,noexecstack \
		$(LDFLAGS) -o $@ $^

# --- tests
UNIT := $(patsubst tests/unit/%.c,$(B)/unit/%,$(sort $(wildcard tests/unit/test_*.c)))
UNIT_SECONDS ?= 120
# A test that replaces functions names them in its first lines: /* wrap: connect getsockopt */
wraps = $(addprefix -Wl$(,)--wrap=,$(shell sed -n 's|^/\* wrap: \(.*\) \*/|\1|p' $(1)))
$(B)/unit/%: tests/unit/%.c $(B)/libkeyhole.a
	$(call say,TEST,$@)mkdir -p $(@D) && $(CC) $(KH_CFLAGS) -Wno-missing-prototypes -Isrc -Itests/unit $(HARDEN_LD) \
		$(call wraps,$<) $(LDFLAGS) \
		-o $@ $< $(B)/libkeyhole.a -lcmocka $(PKG_LIBS) -lpthread

# The launcher without a proxy, for tests/sandbox.
$(B)/sandbox/launch_only: tests/sandbox/launch_only.c $(B)/libkeyhole.a
	$(call say,TEST,$@)mkdir -p $(@D) && $(CC) $(KH_CFLAGS) $(HARDEN_LD) -o $@ $< $(B)/libkeyhole.a $(PKG_LIBS) -lpthread

# The worker's core between test doubles (tests/simulation/simulation.h). A million seeds take no sanitizer; what
# fails is looked at under one: make VARIANT=asan build/asan/simulation, with the seed.
SIMULATION_SRC := $(sort $(wildcard tests/simulation/*.c))
SIMULATION_SEEDS ?= 1000000
SIMULATION_JOBS ?= $(shell nproc 2>/dev/null || echo 2)
$(B)/obj/tests/simulation/%.o: KH_CFLAGS += -Isrc
$(B)/simulation: $(call obj,$(SIMULATION_SRC)) $(B)/libkeyhole.a
	$(call say,TEST,$@)$(CC) $(OPT) $(HARDEN_LD) $(call wraps,$(SIMULATION_SRC)) $(LDFLAGS) -o $@ $^ $(PKG_LIBS) -lpthread
.PHONY: simulation torture
simulation: $(B)/simulation ## the core under SIMULATION_SEEDS (a million) seeded simulations; tests/simulation
	$(Q)seq 0 $$(($(SIMULATION_JOBS) - 1)) | xargs -P $(SIMULATION_JOBS) -I{} sh -c \
		'n=$$(($(SIMULATION_SEEDS) / $(SIMULATION_JOBS))); $(B)/simulation --from $$((1 + {} * n)) --seeds $$n || exit 255'
torture: ## each allocation, call and write of the journal of the core fails in turn, under ASan
	+$(Q)$(MAKE) --no-print-directory VARIANT=asan build/asan/simulation
	$(Q)seq 0 $$(($(SIMULATION_JOBS) - 1)) | xargs -P $(SIMULATION_JOBS) -I{} sh -c \
		'build/asan/simulation --torture --from $$((1 + {} * 100)) --seeds $(TORTURE_SCENARIOS) || exit 255'
TORTURE_SCENARIOS ?= 50

.PHONY: unit unit-programs asan test
unit-programs: $(UNIT)
unit: $(UNIT) ## build and run the unit tests
	@for t in $(UNIT); do timeout $(UNIT_SECONDS) $$t || { echo "$$t: failed" >&2; exit 1; }; done
asan: ## the unit tests under AddressSanitizer and UBSan
	+$(Q)$(MAKE) --no-print-directory VARIANT=asan unit
.PHONY: test-debian
test-debian: all ## make the root of --image debian from this host's mirrors, and run it (minutes, and the network)
	$(Q)rm -rf build/debian-cache && mkdir -p build/debian-cache
	$(Q)XDG_CACHE_HOME=$(CURDIR)/build/debian-cache KEYHOLE_PRESETS=$(CURDIR)/policies $(B)/keyhole run --use npm \
		--image debian -- sh -c '. /etc/os-release && test "$$ID" = debian && touch /usr/bin/new && dpkg --audit && id'
	$(Q)XDG_CACHE_HOME=$(CURDIR)/build/debian-cache $(B)/keyhole image rm debian
.PHONY: test-cgroup2
test-cgroup2: all $(B)/sandbox/launch_only ## limits on a kernel with cgroups of version 2 alone, in QEMU (20 minutes; tests/sandbox/cgroup2.sh)
	$(Q)tests/sandbox/cgroup2.sh
CHURN_SECONDS ?= 3600
.PHONY: churn
churn: all ## let sandboxes come and go under ASan for CHURN_SECONDS (an hour); CHURN_SEED=n repeats a run's steps
	+$(Q)$(MAKE) --no-print-directory VARIANT=asan build/asan/keyhole
	$(Q)CHURN_SECONDS=$(CHURN_SECONDS) CHURN_SEED=$(CHURN_SEED) PYTHONDONTWRITEBYTECODE=1 \
		/usr/bin/python3 -m pytest -q -s -p no:cacheprovider tests/integration/test_churn.py
.PHONY: quick
quick: all unit-programs lint-text ## the inner loop, under a minute: build, unit tests, house rules
	@printf '%s\n' $(UNIT) | xargs -P $$(nproc) -I{} sh -c \
		'timeout $(UNIT_SECONDS) {} >{}.said 2>&1 || { echo "{}: failed" >&2; grep -v "OK \]\|RUN  " {}.said >&2; exit 1; }'
.PHONY: agents
agents: all ## run real agents and tools, and write what became of them into docs/agents.md (20 minutes; AGENTS="codex pi tools" only prints)
	$(Q)PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 tests/agents/report.py $(AGENTS)
.PHONY: agents-peer
agents-peer: all ## run the agents in sandbox-runtime too, and write docs/agents.md's tables of both (15 minutes, as root; AGENTS="codex pi" only prints)
	$(Q)deploy/install-deps.sh peer
	$(Q)PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 tests/agents/peer.py $(AGENTS)
test: ## install what is missing, build, run every test; ends with "N passed, N failed, N skipped"
	+$(Q)tests/run.sh

.PHONY: saturate
saturate: all ## one sandbox uses up each resource for 30 seconds; another tenant must not notice
	$(Q)KEYHOLE_SATURATE=30 /usr/bin/python3 -m pytest -q tests/integration/test_saturation.py

# --- fuzzing: one libFuzzer program a parser; the corpora are replayed without libFuzzer
FUZZ_NAMES := $(patsubst tests/fuzz/fuzz_%.c,%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
FUZZ_SECONDS ?=
FUZZ_CC ?= clang
.PHONY: fuzz fuzz-programs fuzz-replay fuzz-replay-programs
ifeq ($(VARIANT),fuzz)
FUZZ_MAIN := -fsanitize=fuzzer
else
FUZZ_MAIN := $(B)/obj/tests/fuzz/replay.o
endif
$(B)/fuzz/%: tests/fuzz/%.c $(B)/libkeyhole.a $(filter %.o,$(FUZZ_MAIN))
	$(call say,FUZZ,$@)mkdir -p $(@D) && $(CC) $(KH_CFLAGS) -Wno-missing-prototypes -Isrc $(HARDEN_LD) \
		$(call wraps,$<) $(LDFLAGS) -o $@ $< $(FUZZ_MAIN) $(B)/libkeyhole.a $(PKG_LIBS) -lpthread
fuzz-programs: $(addprefix $(B)/fuzz/fuzz_,$(FUZZ_NAMES))
fuzz: ## build the fuzzers with clang; FUZZ_SECONDS=60 runs each for so long (FUZZ_NAMES="host wire": these)
	+$(Q)$(MAKE) --no-print-directory VARIANT=fuzz CC="$(FUZZ_CC)" fuzz-programs
	$(if $(FUZZ_SECONDS),$(Q)tests/fuzz/run.sh $(FUZZ_SECONDS) $(FUZZ_NAMES))
fuzz-replay-programs: $(addprefix $(B)/fuzz/fuzz_,$(FUZZ_NAMES))
fuzz-replay: ## feed the committed corpora to the fuzz targets under ASan and UBSan
	+$(Q)$(MAKE) --no-print-directory VARIANT=asan fuzz-replay-programs
	@for n in $(FUZZ_NAMES); do \
		timeout $(UNIT_SECONDS) build/asan/fuzz/fuzz_$$n tests/fuzz/corpus/$$n || exit 1; done
# Binary, and of the format of the day: made anew where that has changed.
.PHONY: fuzz-snapshots
fuzz-snapshots: $(B)/libkeyhole.a ## make the snapshots to fuzz from anew, when their format has changed
	$(Q)mkdir -p $(B)/fuzz tests/fuzz/corpus/snapshot && $(RM) tests/fuzz/corpus/snapshot/doc-*
	$(Q)$(CC) $(filter-out -MMD -MP,$(KH_CFLAGS)) $(HARDEN_LD) $(LDFLAGS) -o $(B)/fuzz/snapshots tests/fuzz/snapshots.c \
		$(B)/libkeyhole.a $(PKG_LIBS) -lpthread
	$(Q)$(B)/fuzz/snapshots tests/fuzz/corpus/snapshot docs/policy.md docs/configuration.md docs/credentials.md

# --- the tables of options in the documentation
.PHONY: docs-tables
docs-tables: $(B)/libkeyhole.a ## write the tables of options in docs/ anew, from src/config/options.c
	$(Q)mkdir -p $(B)/docs && $(CC) $(filter-out -MMD -MP,$(KH_CFLAGS)) $(HARDEN_LD) $(LDFLAGS) -o $(B)/docs/tables \
		docs/tables.c $(B)/libkeyhole.a $(PKG_LIBS) -lpthread
	$(Q)$(B)/docs/tables docs/configuration.md docs/man/keyhole.yaml.5

# --- what drives the proxy in tests and measurements: a load generator, an origin, a journal's writer
BENCH_FILES := $(sort $(wildcard tests/bench/*.[ch]))
# x.c and x_*.c are one program.
bench_owner = $(filter-out $(1),$(wildcard tests/bench/$(firstword $(subst _, ,$(basename $(notdir $(1))))).c))
BENCH_TOOLS := $(patsubst tests/bench/%.c,$(B)/bench/%,$(foreach f,$(filter-out %/no_lockin.c,$(filter %.c,$(BENCH_FILES))),$(if \
	$(call bench_owner,$(f)),,$(f))))
.PHONY: bench-tools
bench-tools: $(BENCH_TOOLS) ## build the load generator and its kin in build/bench/
$(B)/bench/%: tests/bench/%.c $(BENCH_FILES) $(B)/libkeyhole.a
	$(call say,BENCH,$@)mkdir -p $(@D) && $(CC) $(filter-out -MMD -MP,$(KH_CFLAGS)) $(HARDEN_LD) $(LDFLAGS) -o $@ \
		$< $(wildcard tests/bench/$*_*.c) $(B)/libkeyhole.a $(PKG_LIBS) -lpthread
# keyhole without the lock-in, under which valgrind can't count.
$(B)/bench/keyhole-no-lockin: $(call obj,$(CLI_SRC)) tests/bench/no_lockin.c $(B)/libkeyhole.a
	$(call say,BENCH,$@)mkdir -p $(@D) && $(CC) $(filter-out -MMD -MP,$(KH_CFLAGS)) $(HARDEN_LD) $(LDFLAGS) -Wl,--wrap=kh_lockin,--wrap=execve \
		-o $@ $(filter-out %.a,$^) $(B)/libkeyhole.a $(PKG_LIBS) -lpthread
.PHONY: bench-instructions
bench-instructions: all bench-tools $(B)/bench/keyhole-no-lockin ## instructions and system calls a request, keyhole and peers: figures that repeat
	$(Q)tests/bench/instructions.py

.PHONY: bench
bench: ## install peers, build, measure keyhole and them: one table (BENCH=quick: 5 minutes instead of 20)
	$(Q)deploy/install-deps.sh build run
	$(Q)deploy/install-deps.sh bench || echo 'bench: going on with those that are there' >&2
	+$(Q)$(MAKE) --no-print-directory all bench-tools
	$(Q)tests/bench/bench.py

# --- a closer look
C_FILES := $(sort $(wildcard include/keyhole/*.h include/keyhole/*/*.h src/*/*.[ch] src/*/*/*.[ch] tests/unit/*.[ch] tests/fuzz/*.[ch] tests/simulation/*.[ch] \
	tests/bench/*.[ch] docs/*.c))
SH_FILES = $(shell awk 'FNR == 1 && /^\#!(\/bin\/sh|\/bin\/bash|\/usr\/bin\/env (ba)?sh)/ { print FILENAME } { nextfile }' \
	$$(git ls-files -co --exclude-standard '*.sh' .ci/run deploy tests))
.PHONY: lint lint-text lint-tidy lint-cppcheck format cov compile_commands.json
# For clangd and its like: a command for each file, as it is built here.
compile_commands.json: ## what an editor's clangd wants to know of each C file
	$(Q)printf '%s\n' $(filter %.c,$(C_FILES)) | /usr/bin/python3 -c 'import json, sys; json.dump([{"directory": "$(CURDIR)", \
		"file": f, "arguments": sys.argv[1:] + ["-c", f]} for f in sys.stdin.read().split()], sys.stdout, indent=1)' \
		$(CC) $(filter-out -MMD -MP,$(KH_CFLAGS)) $(PREFIX_DEFS) -Isrc -Itests/unit >$@
lint: lint-text lint-tidy lint-cppcheck ## clang-format, house rules, shellcheck, clang-tidy, cppcheck
lint-text:
	$(call say,FORMAT,clang-format)clang-format --dry-run -Werror $(C_FILES)
	$(call say,HOUSE,tests/house.sh)tests/house.sh
	$(call say,SHELL,shellcheck)shellcheck $(SH_FILES)
# The analyzer knows nothing of cleanup attributes; LeakSanitizer looks for leaks in every test.
NO_LEAK := Potential leak of memory pointed to by
build/tidy/%.ok: %.c .clang-tidy tests/.clang-tidy
	$(call say,TIDY,$<)mkdir -p $(@D) && $(CC) -MM -MP -MT $@ -MF $(@:.ok=.d) -DKH_LINT $(filter-out -MMD -MP,$(BASE_CFLAGS)) \
		$(PKG_CFLAGS) -Isrc -Itests/unit $< && clang-tidy --quiet $< -- -DKH_LINT \
		$(filter-out -MMD -MP -Werror,$(BASE_CFLAGS)) $(PKG_CFLAGS) -Isrc -Itests/unit >$@.out 2>&1; \
		if [ ! -f $@.out ] || grep -E '(warning|error):' $@.out | grep -qv '$(NO_LEAK)'; then cat $@.out; exit 1; fi; mv $@.out $@
TIDY_OK := $(patsubst %.c,build/tidy/%.ok,$(filter %.c,$(C_FILES)))
-include $(wildcard $(TIDY_OK:.ok=.d))
lint-tidy: $(TIDY_OK)
lint-cppcheck:
	$(call say,CHECK,cppcheck)mkdir -p build/cppcheck && cppcheck --quiet --error-exitcode=1 --std=c11 \
		--enable=warning,performance --inline-suppr --suppress=resourceLeak --suppress=memleak \
		--suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches \
		--cppcheck-build-dir=build/cppcheck -D_GNU_SOURCE -DKH_LINT -DKH_VERSION='"$(VERSION)"' \
		-D'json_array_foreach(array,index,value)=for (index = 0; (value = json_array_get(array, index)); index++)' \
		-D'json_object_foreach(object,key,value)=for (;(key = next_key(object, &value));)' \
		-Iinclude src
format: ## put every C file into the house's format
	$(Q)clang-format -i $(C_FILES)
cov: ## line coverage of the unit tests, a line a file, the least covered first
	+$(Q)$(MAKE) --no-print-directory VARIANT=cov unit-programs
	$(Q)find build/cov -name '*.gcda' -delete; for t in build/cov/unit/test_*; do \
		case $$t in *.d | *.gcno | *.gcda) ;; *) timeout $(UNIT_SECONDS) $$t >/dev/null 2>&1 || echo "$$t failed" ;; esac; done
	@find build/cov/obj/src -name '*.gcda' -exec gcov -n {} + 2>/dev/null | awk '\
		/^File / { f = $$2; gsub(/\x27/, "", f) } \
		/^Lines executed/ && f ~ /^src\// { split($$2, a, /[:%]/); printf "%7.1f%% of %5d  %s\n", a[2], $$NF, f; \
			hit += a[2] * $$NF / 100; all += $$NF } /^$$/ { f = "" } \
		END { if (all) printf "%7.1f%% of %5d  in all\n", 100 * hit / all, all }' | sort -n

# --- for users
.PHONY: deps demo recording install uninstall help clean
deps: ## install every package that building and testing needs
	$(Q)deploy/install-deps.sh build run demo test
demo: ## install what is missing, build, and show what keyhole does
	$(Q)deploy/install-deps.sh build run demo
	+$(Q)$(MAKE) --no-print-directory all
	$(Q)deploy/demo/run.sh
recording: all ## docs/images/recording.svg: the README's session, recorded anew
	$(Q)/usr/bin/python3 deploy/demo/recording.py docs/images/recording.svg

MAN := $(sort $(wildcard docs/man/*.[1-8]))
INSTALLED = $(BINDIR)/keyhole $(LIBEXECDIR)/keyhole-init $(LIBEXECDIR)/with-keyhole $(UNITDIR)/keyhole.service $(SYSUSERSDIR)/keyhole.conf \
	$(BASHCOMPDIR)/keyhole $(ZSHCOMPDIR)/_keyhole \
	$(foreach m,$(MAN),$(MANDIR)/man$(subst .,,$(suffix $(m)))/$(notdir $(m))) \
	$(addprefix $(DATADIR)/keyhole/,$(wildcard policies/*.yaml policies/agents/*.yaml))
install: all ## install under PREFIX (and DESTDIR)
	$(Q)install -D -m 0755 build/keyhole '$(DESTDIR)$(BINDIR)/keyhole'
	$(Q)install -D -m 0755 build/keyhole-init '$(DESTDIR)$(LIBEXECDIR)/keyhole-init'
	$(Q)install -D -m 0755 deploy/container/with-keyhole '$(DESTDIR)$(LIBEXECDIR)/with-keyhole'
	$(Q)for p in policies/*.yaml policies/agents/*.yaml; do install -D -m 0644 "$$p" "$(DESTDIR)$(DATADIR)/keyhole/$$p" || exit 1; done
	$(Q)for m in $(MAN); do \
		install -D -m 0644 "$$m" "$(DESTDIR)$(MANDIR)/man$${m##*.}/$${m##*/}" || exit 1; done
	$(Q)mkdir -p build && sed 's|@BINDIR@|$(BINDIR)|g' deploy/systemd/keyhole.service >build/keyhole.service && \
		install -D -m 0644 build/keyhole.service '$(DESTDIR)$(UNITDIR)/keyhole.service'
	$(Q)install -D -m 0644 deploy/systemd/keyhole.sysusers.conf '$(DESTDIR)$(SYSUSERSDIR)/keyhole.conf'
	$(Q)install -D -m 0644 deploy/completion/keyhole.bash '$(DESTDIR)$(BASHCOMPDIR)/keyhole'
	$(Q)install -D -m 0644 deploy/completion/_keyhole '$(DESTDIR)$(ZSHCOMPDIR)/_keyhole'
	@echo 'installed in $(DESTDIR)$(PREFIX)'
uninstall: ## remove what install put there
	$(Q)for f in $(INSTALLED); do rm -f "$(DESTDIR)$$f"; done
	$(Q)for d in '$(DATADIR)/keyhole/policies/agents' '$(DATADIR)/keyhole/policies' '$(DATADIR)/keyhole' '$(LIBEXECDIR)'; do \
		if [ -d "$(DESTDIR)$$d" ]; then rmdir --ignore-fail-on-non-empty "$(DESTDIR)$$d"; fi; done

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo '  Variables: CC, CFLAGS, LDFLAGS, V=1, VARIANT, PREFIX, DESTDIR, FUZZ_SECONDS'
clean: ## remove build/
	$(Q)rm -rf build

ifdef BUILDS
-include $(shell find $(B)/obj $(B)/unit $(B)/fuzz -name '*.d' 2>/dev/null)
endif
