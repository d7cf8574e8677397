#!/bin/busybox sh
# The guest's first program: mounts, modules, then the agent takes over as process 1.
# LOAD names the modules to load at once, SHARE is 1 if there is a shared folder, MIRROR the path of the folder that the
# guest sees as the host does; these lines are put in front of what follows here when the initramfs is built.
export PATH=/usr/bin:/bin HOME=/root TERM=dumb LANG=C.UTF-8

# Switching off ends QEMU, and the host shows the end of the console.
die() {
    echo "pagelab lab: init: $1"
    poweroff -f
    sleep 60
}

mount -t proc proc /proc || die "mounting /proc failed"
mount -t sysfs sysfs /sys || die "mounting /sys failed"
mount -t devtmpfs devtmpfs /dev || die "mounting /dev failed"
mkdir -p /dev/pts /dev/shm /dev/hugepages
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
# What some kernels do not have; commands that need it say so.
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
mount -t bpf bpf /sys/fs/bpf 2>/dev/null
mount -t hugetlbfs hugetlbfs /dev/hugepages 2>/dev/null
hostname lab
ifconfig lo 127.0.0.1 up

for module in $LOAD; do
    modprobe "$module" || die "loading the module $module failed"
done
if [ "$SHARE" = 1 ]; then
    mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 share /share || die "mounting the shared folder failed"
fi
if [ -n "$MIRROR" ]; then
    # Reads come from the host's folder, writes stay in the guest's memory.
    mkdir -p /run/mirror/host /run/mirror/written /run/mirror/work "$MIRROR"
    mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000 mirror /run/mirror/host || die "mounting the mirrored folder failed"
    mount -t overlay -o lowerdir=/run/mirror/host,upperdir=/run/mirror/written,workdir=/run/mirror/work mirror "$MIRROR" ||
        die "mounting the mirrored folder's upper layer failed"
fi
exec /bin/lab-agent
