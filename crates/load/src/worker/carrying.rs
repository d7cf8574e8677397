//! Which loop carries out the jobs of which engine: the one place that knows every engine and the worker's loops.

use pagelab_fiojob::Caps;
use pagelab_fiojob::engines::{self as language, EngineDef};

use super::drive;
use super::task::{Task, WorkerResult};
use crate::engines::file_calls::{FileCalls, PSync, PvSync, Sync, VSync};
use crate::engines::queue::Queue;
use crate::engines::whole_files::{Create, Delete, Stat, WholeFiles};
use crate::engines::{
    Synchronous, anon, dev_dax, e4defrag, falloc, io_uring, libaio, libpmem, mmap, null, posixaio, pvsync2, shm, splice,
};

/// An engine with a worker's life.
pub(super) struct Carrier {
    name: &'static str,
    /// A worker's life with this engine.
    pub run: fn(&Task<'_>) -> WorkerResult,
}

/// An engine that completes each operation before it returns.
const fn in_turn<E: Synchronous>(def: EngineDef) -> Carrier {
    assert!(same(def.caps, E::CAPS), "the engine's capabilities are not those of its declaration");
    Carrier { name: def.name, run: drive::run::<E> }
}

/// An engine that has several operations under way.
const fn queued<Q: Queue>(def: EngineDef) -> Carrier {
    assert!(same(def.caps, Q::CAPS), "the engine's capabilities are not those of its declaration");
    Carrier { name: def.name, run: drive::run_queued::<Q> }
}

const fn same(one: Caps, other: Caps) -> bool {
    one.contains(other) && other.contains(one)
}

/// All engines.
static CARRIERS: [Carrier; 20] = [
    in_turn::<FileCalls<PSync>>(language::PSYNC),
    in_turn::<FileCalls<Sync>>(language::SYNC),
    in_turn::<FileCalls<VSync>>(language::VSYNC),
    in_turn::<FileCalls<PvSync>>(language::PVSYNC),
    in_turn::<pvsync2::PvSync2>(language::PVSYNC2),
    queued::<io_uring::Uring>(language::IO_URING),
    queued::<libaio::LibAio>(language::LIBAIO),
    in_turn::<mmap::Mmap>(language::MMAP),
    in_turn::<libpmem::LibPmem>(language::LIBPMEM),
    in_turn::<dev_dax::DevDax>(language::DEV_DAX),
    in_turn::<anon::Anon>(language::ANON),
    in_turn::<shm::Shm>(language::SHM),
    in_turn::<null::Null>(language::NULL),
    queued::<posixaio::PosixAio>(language::POSIXAIO),
    in_turn::<splice::Splice>(language::SPLICE),
    in_turn::<falloc::Falloc>(language::FALLOC),
    in_turn::<e4defrag::E4Defrag>(language::E4DEFRAG),
    in_turn::<WholeFiles<Create>>(language::FILECREATE),
    in_turn::<WholeFiles<Stat>>(language::FILESTAT),
    in_turn::<WholeFiles<Delete>>(language::FILEDELETE),
];

/// The carrier of the engine of this name.
pub(super) fn find(name: &str) -> Option<&'static Carrier> {
    CARRIERS.iter().find(|carrier| carrier.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_of_the_language_is_carried() {
        let carried: Vec<&str> = CARRIERS.iter().map(|carrier| carrier.name).collect();
        assert_eq!(carried, language::names().collect::<Vec<_>>());
        assert!(language::names().all(|name| find(name).is_some()) && find("rados").is_none());
    }
}
