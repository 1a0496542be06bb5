#!/bin/sh
# cgroup2.sh - the tests of limits on a host that has control groups of version 2 alone
#
#   tests/sandbox/cgroup2.sh [TEST...]     (pytest's words; default: cgroup2_cases.py, and test_limits.py
#                   in the engines process and container)
#   KERNEL=DIR      a Debian kernel package's content (boot/vmlinuz-*, lib/modules/*); default: one is
#                   downloaded with apt-get into build/cgroup2
#   MINUTES=60      when the machine is stopped, whatever it does
#
# Which versions a host has is its kernel's and its init's to say, so this starts another one: a
# machine of QEMU's without KVM, whose root is this host's as it is (9p, read only) under a memory
# of its own. In it runs cgroup2_guest.sh. Needs qemu-system-x86_64 and busybox (static); asks
# nothing of root.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
work=$top/build/cgroup2
mkdir -p "$work"

die()
{
	echo "cgroup2: $*" >&2
	exit 1
}

qemu=$(command -v qemu-system-x86_64) || die "no qemu-system-x86_64 (apt install qemu-system-x86)"
busybox=$(command -v busybox) || die "no busybox (apt install busybox-static)"
"$busybox" --list | grep -qx switch_root || die "this busybox has no switch_root (apt install busybox-static)"
[ -x "$top/build/sandbox/launch_only" ] || die "not built (make test-cgroup2 does it)"

# --- the kernel
if [ -z "${KERNEL:-}" ]; then
	KERNEL=$work/kernel
	if [ ! -d "$KERNEL/lib/modules" ]; then
		package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends:/ { print $2; exit }')
		[ -n "$package" ] || die "apt-get knows no linux-image-amd64 (name a kernel: KERNEL=DIR)"
		(cd "$work" && apt-get -q download "$package" >&2) || die "$package: can't be downloaded"
		dpkg-deb -x "$work/$package"_*.deb "$KERNEL.new"
		mv "$KERNEL.new" "$KERNEL"
		rm -f "$work/$package"_*.deb
	fi
fi
image=$(find "$KERNEL/boot" -name 'vmlinuz-*' | sort | tail -n 1)
[ -n "$image" ] || die "$KERNEL/boot: no vmlinuz"
version=${image##*/vmlinuz-}

# --- what is in memory at its start: busybox, and the modules by which the root is reached
rm -rf "$work/initramfs"
mkdir -p "$work/initramfs/bin" "$work/initramfs/lib/modules/$version"
cp "$busybox" "$work/initramfs/bin/busybox"
for name in virtio virtio_ring virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci netfs fscache 9pnet 9pnet_virtio 9p overlay; do
	find "$KERNEL/lib/modules/$version" -name "$name.ko*" -exec cp {} "$work/initramfs/lib/modules/$version/" \;
done
find "$work/initramfs/lib" -name '*.xz' -exec xz -d {} +
"$busybox" depmod -b "$work/initramfs" "$version"
cat >"$work/initramfs/init" <<'END'
#!/bin/busybox sh
PATH=/bin
/bin/busybox --install -s /bin
mkdir -p /proc /host /memory /root
mount -t proc proc /proc
for name in virtio_pci 9pnet_virtio 9p overlay; do modprobe $name; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 host /host &&
	mount -t tmpfs -o size=80% memory /memory && mkdir /memory/up /memory/work &&
	mount -t overlay -o lowerdir=/host,upperdir=/memory/up,workdir=/memory/work root /root || poweroff -f
umount /proc
top=$(cat /top)
exec switch_root /root /bin/sh "$top/tests/sandbox/cgroup2_guest.sh" "$top"
END
chmod 0755 "$work/initramfs/init"
printf '%s\n' "$top" >"$work/initramfs/top"
(cd "$work/initramfs" && find . | "$busybox" cpio -o -H newc 2>/dev/null | gzip -1) >"$work/initramfs.gz"

# --- the machine. Its last line says how it ended.
[ $# -gt 0 ] || set -- -k "cgroup2 or ((process or container) and not wrong_limit and not options_of_run)" \
	tests/sandbox/cgroup2_cases.py tests/sandbox/test_limits.py
printf '%s\n' "$@" >"$work/words"
status=0
timeout "$((${MINUTES:-60} * 60))" "$qemu" -M pc -accel tcg,thread=multi -cpu max -smp 2 -m 3072 -nodefaults \
	-nographic -no-reboot -serial stdio -nic none \
	-fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap \
	-device virtio-9p-pci,fsdev=host,mount_tag=host \
	-kernel "$image" -initrd "$work/initramfs.gz" -append "console=ttyS0 panic=-1 quiet" \
	</dev/null >"$work/said" || status=$?
tr -d '\r' <"$work/said" >"$work/said.txt"
cat "$work/said.txt"
[ "$status" -eq 0 ] || die "the machine ended with $status"
last=$(sed -n 's/^cgroup2: ended with \([0-9]*\)$/\1/p' "$work/said.txt" | tail -n 1)
exit "${last:-1}"
