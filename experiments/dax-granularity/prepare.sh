#!/bin/sh
# Before each run: the file system on /dev/pmem0, mounted anew for direct access, with the two files of jobs/layout.fio. They are
# made once in each guest and for each file system: no job changes what is in them or where it lies, and what a file was mapped by is
# forgotten when it is let go. Runs in the lab's guest.
set -e
here=${PAGELAB_PLAN_DIR:-$(dirname "$0")}
pagelab=${PAGELAB:-pagelab}
mkdir -p /mnt/dax
! grep -q ' /mnt/dax ' /proc/mounts || umount /mnt/dax
if [ "$(cat /tmp/laid-out 2>/dev/null)" = "$1" ]; then
    mount -o dax /dev/pmem0 /mnt/dax
    exit
fi
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
umount /mnt/dax
mount -o dax /dev/pmem0 /mnt/dax
echo "$1" >/tmp/laid-out
