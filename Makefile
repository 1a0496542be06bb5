# keyhole: build, test, install. `make help` lists the targets.
VERSION := 0.1.0
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBEXECDIR ?= $(PREFIX)/libexec/keyhole
DATADIR ?= $(PREFIX)/share
MANDIR ?= $(DATADIR)/man
UNITDIR ?= $(PREFIX)/lib/systemd/system

VARIANT ?=
B := build$(if $(VARIANT),/$(VARIANT))
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-7s %s\n' '$(1)' '$(2)';)

PKGS := openssl libevent libevent_pthreads libcares yaml-0.1 libseccomp
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
PKG_LIBS := $(shell pkg-config --libs $(PKGS) 2>/dev/null)

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wformat=2 \
	-Wstrict-prototypes -Wmissing-prototypes -Wcast-qual -Wwrite-strings -Wvla -Wswitch-enum -Werror
HARDEN := -fstack-protector-strong -fstack-clash-protection -fcf-protection=full -fPIE
HARDEN_LD := -pie -Wl,-z,relro,-z,now,-z,noexecstack
OPT := -O2 -g
FORTIFY := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3
ifeq ($(VARIANT),asan)
OPT := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
FORTIFY :=
HARDEN := -fPIE
HARDEN_LD := -pie
endif
CFLAGS ?=
LDFLAGS ?=
KH_CFLAGS = -std=c17 -D_GNU_SOURCE $(OPT) $(WARN) $(HARDEN) $(FORTIFY) -Iinclude $(PKG_CFLAGS) \
	-DKH_VERSION='"$(VERSION)"' -DKH_LIBEXECDIR='"$(LIBEXECDIR)"' -DKH_DATADIR='"$(DATADIR)/keyhole"' -MMD -MP $(CFLAGS)

LIB_SRC := $(wildcard $(addsuffix /*.c,$(addprefix src/,base config policy net tls http credential llm audit proxy keeper sandbox)))
CLI_SRC := $(wildcard src/cli/*.c)
INIT_SRC := $(wildcard src/init/*.c)
obj = $(patsubst %.c,$(B)/obj/%.o,$(1))

.PHONY: all
all: $(B)/keyhole $(B)/keyhole-init

$(B)/obj/%.o: %.c
	$(call say,CC,$<)mkdir -p $(@D) && $(CC) $(KH_CFLAGS) -c -o $@ $<

$(B)/libkeyhole.a: $(call obj,$(LIB_SRC))
	$(call say,AR,$@)rm -f $@ && $(AR) rcs $@ $^

$(B)/keyhole: $(call obj,$(CLI_SRC)) $(B)/libkeyhole.a
	$(call say,LD,$@)$(CC) $(OPT) $(HARDEN_LD) $(LDFLAGS) -o $@ $^ $(PKG_LIBS) -lpthread

# Static, without a run-time dependency: it runs in any root.
$(B)/keyhole-init: $(INIT_SRC)
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) $(filter-out -MMD -MP,$(KH_CFLAGS)) -fno-pie -static $(LDFLAGS) -o $@ $^

UNIT := $(patsubst tests/unit/%.c,$(B)/unit/%,$(wildcard tests/unit/test_*.c))
$(B)/unit/%: tests/unit/%.c $(B)/libkeyhole.a
	$(call say,TEST,$@)mkdir -p $(@D) && $(CC) $(KH_CFLAGS) -Wno-missing-prototypes -Isrc -Itests/unit $(HARDEN_LD) \
		$(addprefix -Wl$(,)--wrap=,$(shell sed -n 's|^/\* wrap: \(.*\) \*/|\1|p' $<)) -o $@ $< $(B)/libkeyhole.a -lcmocka $(PKG_LIBS) -lpthread
, := ,

.PHONY: unit asan
unit: $(UNIT)
	@for t in $(UNIT); do $$t || exit 1; done
asan:
	+$(Q)$(MAKE) VARIANT=asan unit

.PHONY: clean
clean:
	rm -rf build

-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)
