# cycle.sh MOUNT: a live subvolume and twelve snapshots of it, from gold
cd "$1" || exit 1
for old in live snap*; do
    [ -d "$old" ] && btrfs -q subvolume delete "$old"
done
btrfs subvolume sync . > /dev/null
btrfs -q subvolume snapshot gold live || exit 1
for number in $(seq 12); do
    btrfs -q subvolume snapshot -r live "snap$number" || exit 1
done
sync -f .
