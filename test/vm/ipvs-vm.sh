#!/bin/bash
# ipvs-vm.sh - run a script inside a throw-away Linux VM that has IPVS.
#
#   ipvs-vm.sh build                      fetch packages, build the cached image
#   ipvs-vm.sh run [options] SCRIPT [FILE|DIR ...]
#   ipvs-vm.sh clean                      remove the cache
#
# Options of run:
#   -t SECS    time limit for the whole VM            (default 120)
#   -m MB      guest memory                           (default 512)
#   -c N       guest CPUs                             (default 2)
#   -e K=V     environment variable for SCRIPT        (repeatable)
#   -v         show kernel messages
#
# SCRIPT and the extra files land in /t in the guest, which is the working
# directory and first in PATH. SCRIPT runs as root with /bin/sh unless it has a
# "#!" line (bash is there). ip_vs and its schedulers are loaded, lo is up.
#
# Exit status: SCRIPT's own; 124 time limit; 125 the VM failed (no status came
# back); 2 usage. The first build takes Debian's apt-get, root and 45 MB of
# packages; the cache is ~/.cache/lb-render-vm, or LB_RENDER_VM_CACHE.
#
# The machine is QEMU "pc" under TCG with Debian's cloud kernel, which is
# unpacked into the cache and never installed. (Not -M microvm: without HPET or
# PM timer about a quarter of its boots hang in the kernel's TSC calibration.
# Not KVM: on a nested or paravirtual /dev/kvm a stock kernel can hang.)
set -euo pipefail
umask 022
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin"

CACHE=${LB_RENDER_VM_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/lb-render-vm}
KERNEL_PKG=${LB_RENDER_VM_KERNEL_PKG:-linux-image-cloud-amd64} # meta package or a concrete linux-image-*
HOST_PKGS='busybox-static kmod ipvsadm keepalived iproute2 qemu-system-x86'
KDIR=$CACHE/kernel
# Programs copied into the guest with their libraries (the last ones if present).
PROGS='ipvsadm keepalived ip ss modprobe bash'
PROGS_OPT='nft iptables ip6tables tcpdump'
# Module directories copied whole; dependencies outside of them are added.
MODDIRS='net/netfilter net/ipv4 net/ipv6 net/sched
         drivers/net/dummy.ko drivers/net/veth.ko drivers/net/tun.ko net/bridge'

say() { echo "ipvs-vm: $*" >&2; }
die() { say "$@"; exit 125; }
usage() { sed -n '2,/^set -e/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }

apt() { nice -n 10 apt-get -qq -o DPkg::Lock::Timeout=300 -o APT::Sandbox::User=root "$@"; }

need_apt() { # what for
	command -v apt-get >/dev/null || die "no apt-get on this machine, which is needed to $1"
	[ "$(id -u)" = 0 ] || die "root is needed to $1"
}

host_packages() {
	local p missing=
	for p in $HOST_PKGS; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing+=" $p"
	done
	[ -z "$missing" ] && return
	need_apt "install$missing"
	say "installing$missing"
	apt update >&2
	# shellcheck disable=SC2086
	DEBIAN_FRONTEND=noninteractive apt install -y --no-install-recommends $missing >&2
}

fetch_kernel() { # -> $KDIR/{lib/modules/KVER,vmlinuz}, and KVER
	if [ ! -e "$KDIR/.ok" ]; then
		local pkg=$KERNEL_PKG dep tmp=$KDIR.tmp
		need_apt "fetch $pkg"
		apt-cache show "$pkg" >/dev/null 2>&1 || apt update >&2
		dep=$(apt-cache depends "$pkg" | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -1)
		[ -n "$dep" ] && pkg=$dep
		say "fetching $pkg"
		rm -rf "$tmp" "$KDIR"; mkdir -p "$tmp"
		(cd "$tmp" && { apt download "$pkg" || { apt update && apt download "$pkg"; }; }) >&2
		dpkg -x "$tmp"/*.deb "$tmp"
		rm -f "$tmp"/*.deb
		mv "$tmp"/boot/vmlinuz-* "$tmp/vmlinuz"
		touch "$tmp/.ok"; mv "$tmp" "$KDIR"
	fi
	KVER=$(basename "$KDIR"/lib/modules/*)
}

add_prog() { # root prog: copy a program and the libraries it needs
	local src lib
	src=$(command -v "$2") || return 1
	install -D "$(readlink -f "$src")" "$1/bin/$(basename "$2")"
	{ ldd "$src" 2>/dev/null || true; } | grep -o '/[^ ]*' | while read -r lib; do
		[ -e "$1$lib" ] || install -D "$(readlink -f "$lib")" "$1$lib"
	done
}

add_modules() { # root
	local k=$KDIR/lib/modules/$KVER d=$1/lib/modules/$KVER m
	mkdir -p "$d"
	cp "$k"/modules.builtin "$k"/modules.builtin.modinfo "$k"/modules.order "$d"
	depmod -b "$KDIR" "$KVER"
	for m in $MODDIRS; do
		[ -e "$k/kernel/$m" ] || continue
		mkdir -p "$d/kernel/$(dirname "$m")"
		cp -r "$k/kernel/$m" "$d/kernel/$(dirname "$m")/"
	done
	# whatever those need (names are relative to the module directory)
	(cd "$d" && find kernel -name '*.ko*') | while read -r m; do
		sed -n "s|^$m: *||p" "$k/modules.dep" | tr ' ' '\n'
	done | sort -u | while read -r m; do
		[ -z "$m" ] || [ -e "$d/$m" ] || install -D -m 644 "$k/$m" "$d/$m"
	done
	depmod -b "$1" "$KVER"
}

write_init() {
	cat <<'INIT'
#!/bin/busybox sh
export PATH=/t:/bin:/sbin HOME=/root TERM=dumb LC_ALL=C
mount -t proc proc /proc; mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts; mount -t tmpfs shm /dev/shm
mount -t tmpfs run /run; mount -t tmpfs tmp /tmp; chmod 1777 /tmp
mkdir -p /run/netns /run/lock /var
ln -sfn /run /var/run; ln -sfn /proc/self/fd /dev/fd; ln -sfn /proc/mounts /etc/mtab
stty -opost </dev/console 2>/dev/null
stty -F /dev/ttyS1 raw -echo 2>/dev/null
hostname ipvs-vm
modprobe -q ipv6
ip link set lo up
modprobe -a ip_vs $(cd /lib/modules/*/kernel/net/netfilter/ipvs && ls | sed 's/\.ko.*//' | grep -v -e pe_sip -e ftp) || echo "ipvs-vm: modprobe ip_vs failed"
cd /t
[ -f .env ] && { set -a; . ./.env; set +a; }
if [ "$(head -c 2 .script)" = '#!' ]; then set -- ./.script; else set -- /bin/sh ./.script; fi
setsid "$@" </dev/null; rc=$?
echo "rc=$rc" >/dev/ttyS1 # the second UART carries the status
echo 0 >/proc/sys/kernel/printk; poweroff -f
INIT
}

build() {
	[ "$(uname -m)" = x86_64 ] || die "the VM is an x86_64 one with this machine's own programs; this is $(uname -m)"
	host_packages
	mkdir -p "$CACHE"
	fetch_kernel
	local key root p
	key=$( { cat "$0"; echo "$KVER"; for p in busybox $PROGS $PROGS_OPT; do
		p=$(command -v "$p" 2>/dev/null) && stat -Lc '%n %s %Y' "$p" || true; done; } | sha256sum | cut -c1-16)
	IMG=$CACHE/base-$key.cpio
	[ -e "$IMG" ] && return
	say "building $IMG"
	root=$(mktemp -d "$CACHE/root.XXXXXX")
	mkdir -p "$root"/{bin,etc,proc,sys,dev,run,tmp,root,t,lib64,usr/share}
	for p in sbin usr/bin usr/sbin; do mkdir -p "$root/$(dirname $p)"; ln -s /bin "$root/$p"; done
	cp "$(command -v busybox)" "$root/bin/busybox"
	for p in $("$root/bin/busybox" --list); do
		[ -e "$root/bin/$p" ] || ln -s busybox "$root/bin/$p"
	done
	for p in $PROGS; do rm -f "$root/bin/$p"; add_prog "$root" "$p" || die "no $p on this machine"; done
	for p in $PROGS_OPT; do
		command -v "$p" >/dev/null 2>&1 || continue
		rm -f "$root/bin/$p"; add_prog "$root" "$p" || true
	done
	cp -r /usr/lib/x86_64-linux-gnu/xtables "$root/usr/lib/x86_64-linux-gnu/" 2>/dev/null || true
	add_modules "$root"
	echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
	printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
	echo '127.0.0.1 localhost ipvs-vm' >"$root/etc/hosts"
	for p in protocols services; do [ ! -e /etc/$p ] || cp /etc/$p "$root/etc/"; done
	write_init >"$root/init"; chmod 755 "$root/init"
	rm -f "$CACHE"/base-*.cpio
	pack "$root" >"$IMG.tmp"; mv "$IMG.tmp" "$IMG"
	rm -rf "$root"
}

pack() { (cd "$1" && find . -mindepth 1 | busybox cpio -o -H newc 2>/dev/null); }

locked_build() { # one builder at a time; others wait
	mkdir -p "$CACHE"
	exec 9>"$CACHE/lock"; flock 9; build; exec 9>&-
}

run() {
	local limit=120 mem=512 cpus=2 loglevel='quiet loglevel=1' env='' opt
	while getopts t:m:c:e:v opt; do
		case $opt in
		t) limit=$OPTARG;; m) mem=$OPTARG;; c) cpus=$OPTARG;; v) loglevel=loglevel=7;;
		e) printf -v opt '%s=%q' "${OPTARG%%=*}" "${OPTARG#*=}"; env+=$opt$'\n';;
		*) usage;;
		esac
	done
	shift $((OPTIND - 1)); [ $# -ge 1 ] || usage
	local script=$1 f; shift
	for f in "$script" "$@"; do [ -r "$f" ] || { say "cannot read $f"; exit 2; }; done
	locked_build

	TMP=$(mktemp -d "${TMPDIR:-/tmp}/ipvs-vm.XXXXXX"); trap 'rm -rf "$TMP"' EXIT
	mkdir -p "$TMP/o/t"
	[ $# -eq 0 ] || cp -rL "$@" "$TMP/o/t/"
	cp "$script" "$TMP/o/t/.script"; cp "$script" "$TMP/o/t/$(basename "$script")"
	chmod 755 "$TMP/o/t/.script"
	printf '%s' "$env" >"$TMP/o/t/.env"
	# The kernel unpacks concatenated cpio archives one over the other.
	{ cat "$IMG"; pack "$TMP/o"; } >"$TMP/initrd"
	rm -rf "$TMP/o"

	local rc=0 st
	: >"$TMP/ctl"
	timeout --foreground -k 5 "$limit" \
		qemu-system-x86_64 -M pc -accel tcg,thread=multi -cpu max -m "$mem" -smp "$cpus" \
		-no-user-config -nodefaults -display none -monitor none -no-reboot \
		-kernel "$KDIR/vmlinuz" -initrd "$TMP/initrd" \
		-append "console=ttyS0 panic=-1 rdinit=/init $loglevel mitigations=off random.trust_cpu=on" \
		-chardev stdio,id=con,signal=off -serial chardev:con \
		-chardev file,id=ctl,path="$TMP/ctl" -serial chardev:ctl \
		</dev/null || rc=$?
	[ $rc -ne 124 ] && [ $rc -ne 137 ] || { say "time limit of $limit s reached"; exit 124; }
	st=$(head -c 16 "$TMP/ctl" 2>/dev/null | sed -n '1s/^rc=\([0-9]*\)$/\1/p' || true)
	[ -n "$st" ] || die "the VM ended without a status (QEMU: $rc)"
	exit "$st"
}

case ${1:-} in
build) locked_build; say "kernel $KVER, image $IMG ($(stat -c %s "$IMG") bytes)";;
run) shift; run "$@";;
clean) rm -rf "$CACHE";;
*) usage;;
esac
