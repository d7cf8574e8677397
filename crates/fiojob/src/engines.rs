//! The engines as the language knows them: names, what they do, what they can do.
//!
//! `pagelab_load::engines` implements each; its capabilities there are the ones declared here.

use crate::model::Caps;

/// An engine of the job language.
#[derive(Debug, Clone, Copy)]
pub struct EngineDef {
    /// The word of `ioengine=`.
    pub name: &'static str,
    /// What it does.
    pub help: &'static str,
    /// What it can do: options are offered, refused or warned about by it.
    pub caps: Caps,
}

/// What engines on memory of their own have in common.
const OWN_MEMORY: Caps =
    Caps::MAPS.with(Caps::ANONYMOUS).with(Caps::BUFFERS).with(Caps::SYNCHRONOUS).with(Caps::TOUCHES_MEMORY);

/// `ioengine=psync`.
pub const PSYNC: EngineDef = EngineDef { name: "psync", help: "pread(2) and pwrite(2)", caps: Caps::FILE_CALLS };

/// `ioengine=sync`.
pub const SYNC: EngineDef = EngineDef {
    name: "sync",
    help: "read(2) and write(2), with lseek(2) where the position is another",
    caps: Caps::FILE_CALLS,
};

/// `ioengine=vsync`.
pub const VSYNC: EngineDef = EngineDef {
    name: "vsync",
    help: "readv(2) and writev(2), with lseek(2) where the position is another",
    caps: Caps::FILE_CALLS.with(Caps::GATHERS),
};

/// `ioengine=pvsync`.
pub const PVSYNC: EngineDef = EngineDef { name: "pvsync", help: "preadv(2) and pwritev(2)", caps: Caps::FILE_CALLS };

/// `ioengine=pvsync2`.
pub const PVSYNC2: EngineDef = EngineDef {
    name: "pvsync2",
    help: "preadv2(2) and pwritev2(2), with the flags that hipri, nowait and uncached ask for",
    caps: Caps::FILE_CALLS.with(Caps::POLLED).with(Caps::POLLED_SHARE).with(Caps::NOWAIT).with(Caps::UNCACHED),
};

/// `ioengine=io_uring`.
pub const IO_URING: EngineDef = EngineDef {
    name: "io_uring",
    help: "io_uring_enter(2), iodepth operations under way; with fixed buffers, registered files or a submitting thread of the kernel's",
    caps: Caps::FILES
        .with(Caps::DIRECT)
        .with(Caps::SYNC_OPEN)
        .with(Caps::FSYNC)
        .with(Caps::BUFFERS)
        .with(Caps::TRIMS)
        .with(Caps::RANGE_SYNC)
        .with(Caps::NOWAIT)
        .with(Caps::UNCACHED)
        .with(Caps::POLLED)
        .with(Caps::RINGS)
        .with(Caps::QUEUES_FLUSHES),
};

/// `ioengine=libaio`.
pub const LIBAIO: EngineDef = EngineDef {
    name: "libaio",
    help: "io_submit(2) and io_getevents(2), iodepth operations under way",
    caps: Caps::FILES
        .with(Caps::DIRECT)
        .with(Caps::SYNC_OPEN)
        .with(Caps::FSYNC)
        .with(Caps::BUFFERS)
        .with(Caps::TRIMS)
        .with(Caps::RANGE_SYNC)
        .with(Caps::NOWAIT),
};

/// `ioengine=posixaio`.
pub const POSIXAIO: EngineDef = EngineDef {
    name: "posixaio",
    help: "aio_read(3) and aio_write(3), iodepth operations under way: threads of the C library do them, those of one file in turn",
    caps: Caps::FILES
        .with(Caps::DIRECT)
        .with(Caps::SYNC_OPEN)
        .with(Caps::FSYNC)
        .with(Caps::BUFFERS)
        .with(Caps::TRIMS)
        .with(Caps::RANGE_SYNC)
        .with(Caps::QUEUES_FLUSHES),
};

/// `ioengine=splice`.
pub const SPLICE: EngineDef = EngineDef {
    name: "splice",
    help: "splice(2) between the file and a pipe, with read(2) from there and vmsplice(2) to there",
    caps: Caps::FILE_CALLS,
};

/// `ioengine=mmap`.
pub const MMAP: EngineDef = EngineDef {
    name: "mmap",
    help: "copies from and to a mapping of the file, in pieces of any size",
    caps: Caps::FILES
        .with(Caps::MAPS)
        .with(Caps::DIRECT)
        .with(Caps::SYNC_OPEN)
        .with(Caps::FSYNC)
        .with(Caps::RANGE_SYNC)
        .with(Caps::SYNCHRONOUS)
        .with(Caps::BUFFERS)
        .with(Caps::TOUCHES_MEMORY)
        .with(Caps::NEEDS_LENGTH),
};

/// `ioengine=libpmem`.
pub const LIBPMEM: EngineDef = EngineDef {
    name: "libpmem",
    help: "copies from and to a file on direct access mapped with MAP_SYNC; writes are made durable by the processor, by msync(2) where MAP_SYNC is refused",
    caps: Caps::FILES
        .with(Caps::MAPS)
        .with(Caps::PERSISTS)
        .with(Caps::DIRECT)
        .with(Caps::SYNC_OPEN)
        .with(Caps::FSYNC)
        .with(Caps::SYNCHRONOUS)
        .with(Caps::BUFFERS)
        .with(Caps::TOUCHES_MEMORY)
        .with(Caps::NEEDS_LENGTH),
};

/// `ioengine=dev-dax`.
pub const DEV_DAX: EngineDef = EngineDef {
    name: "dev-dax",
    help: "copies from and to a character device of direct access, /dev/dax0.0; each write is durable when it ends",
    caps: Caps::FILES
        .with(Caps::MAPS)
        .with(Caps::PERSISTS)
        .with(Caps::DAX_DEVICES)
        .with(Caps::FSYNC)
        .with(Caps::SYNCHRONOUS)
        .with(Caps::BUFFERS)
        .with(Caps::TOUCHES_MEMORY),
};

/// `ioengine=anon`.
pub const ANON: EngineDef = EngineDef {
    name: "anon",
    help: "copies from and to anonymous memory or a memfd: base pages, transparent huge pages by advice, or hugetlb pages",
    caps: OWN_MEMORY.with(Caps::MEMFD),
};

/// `ioengine=shm`.
pub const SHM: EngineDef = EngineDef {
    name: "shm",
    help: "copies from and to System V shared memory, a segment for each piece: base pages or hugetlb pages",
    caps: OWN_MEMORY.with(Caps::SEGMENTS),
};

/// `ioengine=falloc`.
pub const FALLOC: EngineDef = EngineDef {
    name: "falloc",
    help: "fallocate(2): writes allocate, reads allocate and keep the file's size, trims punch holes; no data are moved",
    caps: Caps::FILES.with(Caps::FSYNC).with(Caps::SYNCHRONOUS).with(Caps::TRIMS).with(Caps::ALLOCATES),
};

/// `ioengine=e4defrag`.
pub const E4DEFRAG: EngineDef = EngineDef {
    name: "e4defrag",
    help: "EXT4_IOC_MOVE_EXT: writes move the file's blocks to those of donorname, and leave what they hold",
    caps: Caps::FILES.with(Caps::FSYNC).with(Caps::SYNCHRONOUS).with(Caps::DONOR),
};

/// `ioengine=filecreate`.
pub const FILECREATE: EngineDef = EngineDef {
    name: "filecreate",
    help: "open(2) with O_CREAT, once for each of nrfiles files",
    caps: FILE_OPERATIONS.with(Caps::CREATES),
};

/// `ioengine=filestat`.
pub const FILESTAT: EngineDef = EngineDef {
    name: "filestat",
    help: "stat(2), lstat(2) or statx(2) by stat_type, once for each of nrfiles files",
    caps: FILE_OPERATIONS.with(Caps::STATS),
};

/// `ioengine=filedelete`.
pub const FILEDELETE: EngineDef = EngineDef {
    name: "filedelete",
    help: "unlink(2), once for each of nrfiles files; only files that pagelab made",
    caps: FILE_OPERATIONS.with(Caps::DELETES),
};

/// What engines have in common that do something to a file as a whole.
const FILE_OPERATIONS: Caps = Caps::FILES.with(Caps::SYNCHRONOUS).with(Caps::WHOLE_FILES);

/// `ioengine=null`.
pub const NULL: EngineDef = EngineDef {
    name: "null",
    help: "does nothing: what remains is what measuring costs",
    caps: Caps::SYNCHRONOUS.with(Caps::TRIMS),
};

/// All engines.
pub static ENGINES: &[EngineDef] = &[
    PSYNC, SYNC, VSYNC, PVSYNC, PVSYNC2, IO_URING, LIBAIO, MMAP, LIBPMEM, DEV_DAX, ANON, SHM, NULL, POSIXAIO, SPLICE,
    FALLOC, E4DEFRAG, FILECREATE, FILESTAT, FILEDELETE,
];

/// The engine of this name.
pub fn find(name: &str) -> Option<&'static EngineDef> {
    ENGINES.iter().find(|engine| engine.name == name)
}

/// The names of all engines.
pub fn names() -> impl Iterator<Item = &'static str> {
    ENGINES.iter().map(|engine| engine.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found() {
        for name in names() {
            assert_eq!(find(name).map(|engine| engine.name), Some(name));
        }
        assert!(find("rados").is_none());
    }
}
