#!/bin/sh
# Before each run: a new file system on /dev/pmem0, mounted for direct access, with the two files of jobs/layout.fio. Runs in the
# lab's guest.
set -e
here=${PAGELAB_PLAN_DIR:-$(dirname "$0")}
pagelab=${PAGELAB:-pagelab}
mkdir -p /mnt/dax
! grep -q ' /mnt/dax ' /proc/mounts || umount /mnt/dax
case $1 in
ext4) mkfs.ext4 -q -F -b 4096 -E stride=512 /dev/pmem0 ;;
xfs) mkfs.xfs -q -f -m reflink=0 -d su=2m,sw=1 /dev/pmem0 ;;
*)
    echo "prepare.sh: found '$1', needed ext4 or xfs" >&2
    exit 2
    ;;
esac
mount -o dax /dev/pmem0 /mnt/dax
cd /tmp
rm -rf layout.rec
"$pagelab" run "$here/jobs/layout.fio" --observe settings -o layout.rec >/dev/null
/usr/bin/fallocate --collapse-range --offset 0 --length 1M /mnt/dax/odd
# What a file was mapped by is forgotten when it is let go.
umount /mnt/dax
mount -o dax /dev/pmem0 /mnt/dax
