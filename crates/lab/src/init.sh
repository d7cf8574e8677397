#!/bin/busybox sh
# The guest's first program: mounts, modules, then the agent takes over as process 1.
# LOAD names the modules to load at once, SHARE is 1 if there is a shared folder; both lines are put in front of what
# follows here when the initramfs is built.
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
exec /bin/lab-agent
