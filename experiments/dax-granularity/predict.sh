#!/bin/sh
# What `pagelab doctor` says of each case before anything is mapped, as one JSON document: file system, case, doctor's document. Runs in
# the lab's guest.
set -e
here=$(dirname "$0")
case_of() { # NAME FILE OPTION...
    name=$1 file=$2
    shift 2
    printf '%s"%s": ' "$comma" "$name"
    comma=,
    # A problem is an answer, and status 1.
    pagelab doctor "/mnt/dax/$file" "$@" --json || [ $? -eq 1 ]
}
outer=
printf '{'
for system in ext4 xfs; do
    sh "$here/prepare.sh" $system
    printf '%s"%s": {' "$outer" $system
    outer=,
    comma=
    case_of pieces-2m aligned --pieces 2M
    case_of pieces-1m-apart aligned --pieces 1M
    case_of pieces-1m-merged aligned
    case_of address-off aligned --shift 1M
    case_of extents-off odd --pieces 2M
    case_of private-written aligned --pieces 2M --private
    printf '}'
done
printf '}\n'
