//! The memory areas of a process with their flags, by a walk over the areas alone: `bpf/vmas.bpf.c`. `smaps` has the flags, too, and
//! keeps the process from mapping memory while it walks the page tables for sums that nobody asked for.

use std::io::{self, Read};
use std::mem::size_of;
use std::ptr::NonNull;

use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{AsRawLibbpf, Iter, Link, libbpf_sys};
use pagelab_residency::maps::{Area, Areas};

use crate::bpf::{BpfError, include_skeleton, not_loaded, open, refused_io};

include_skeleton!("vmas");

use skeleton::{VmasSkel, VmasSkelBuilder};

const NEEDED: &str = "BTF of the kernel and iterators over the areas of a task (Linux 6.1)";

/// Words of a record of `bpf/vmas.bpf.c`: start, end, flags, bytes of a page of the pool.
const WORDS: usize = 4;

/// The loaded program.
pub(crate) struct VmaWalk {
    skel: VmasSkel<'static>,
}

impl std::fmt::Debug for VmaWalk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("VmaWalk")
    }
}

impl VmaWalk {
    /// Loads it, and tries it on this process.
    ///
    /// # Errors
    /// The kernel has no such iterator, or lets this user load nothing.
    pub(crate) fn load() -> Result<Self, BpfError> {
        let skel = open::<VmasSkelBuilder>(NEEDED)?.load().map_err(not_loaded)?;
        let mut walk = Self { skel };
        let tried = walk.areas(std::process::id());
        tried.map_err(refused_io("listing areas", NEEDED))?;
        Ok(walk)
    }

    fn link(&self, pid: u32) -> io::Result<Link> {
        let mut which = libbpf_sys::bpf_iter_link_info::default();
        // All threads have the same areas.
        which.task.tid = pid;
        let options = libbpf_sys::bpf_iter_attach_opts {
            sz: size_of::<libbpf_sys::bpf_iter_attach_opts>() as _,
            link_info: &raw mut which,
            link_info_len: size_of::<libbpf_sys::bpf_iter_link_info>() as _,
            ..Default::default()
        };
        let program = self.skel.progs.list_vmas.as_libbpf_object();
        // SAFETY: the program is loaded and outlives the call, and so do the options and what they point to.
        let link = unsafe { libbpf_sys::bpf_program__attach_iter(program.as_ptr(), &raw const options) };
        let link = NonNull::new(link).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: libbpf has just made it, and nobody else has it.
        Ok(unsafe { Link::from_ptr(link) })
    }
}

impl Areas for VmaWalk {
    fn areas(&mut self, pid: u32) -> io::Result<Vec<Area>> {
        let link = self.link(pid)?;
        let mut iter = Iter::new(&link).map_err(io::Error::other)?;
        let mut bytes = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match iter.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => bytes.extend_from_slice(buffer.get(..read).unwrap_or_default()),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
        let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let area = |[start, end, flags, page_bytes]: &[u64; WORDS]| Area {
            start: *start,
            end: *end,
            flags: *flags,
            pool_page_bytes: *page_bytes,
        };
        Ok(words.as_chunks::<WORDS>().0.iter().map(area).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use pagelab_residency::maps;

    use super::*;

    /// What smaps says of the same areas is the truth. This process maps and unmaps meanwhile, so another one is asked.
    #[test]
    fn flags_are_those_of_smaps() {
        const PROGRAM: &str = "import mmap, time\n\
            for n, advice in enumerate([mmap.MADV_HUGEPAGE, mmap.MADV_NOHUGEPAGE, mmap.MADV_DONTDUMP, None]):\n\
            \x20   m = mmap.mmap(-1, (n + 3) << 21, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n\
            \x20   if advice is not None: m.madvise(advice)\n\
            \x20   globals()[f'm{n}'] = m\n\
            print('ready', flush=True)\ntime.sleep(60)\n";
        let mut command = std::process::Command::new("python3");
        let mut child = command.args(["-c", PROGRAM]).stdout(std::process::Stdio::piped()).spawn().expect("python3");
        let mut line = [0; 6];
        child.stdout.as_mut().expect("piped").read_exact(&mut line).expect("it starts");
        let mut walk = VmaWalk::load().expect("root, and Linux 6.1");
        let found = walk.areas(child.id()).expect("it lives");
        let folder = Path::new("/proc").join(child.id().to_string());
        let told: Vec<_> = maps::smaps(&folder).expect("smaps").map(|vma| vma.expect("a mapping")).collect();
        child.kill().and_then(|()| child.wait()).expect("it ends");
        let by_start: BTreeMap<u64, &Area> = found.iter().map(|area| (area.start, area)).collect();
        let mut advised = 0;
        for vma in told.iter().filter(|vma| vma.path != b"[vsyscall]") {
            let area = by_start.get(&vma.start).unwrap_or_else(|| panic!("{vma:?} is not listed"));
            assert_eq!(area.end, vma.end, "{vma:?}");
            let flags = area.flags_text();
            for flag in ["hg", "nh", "ht", "pf", "io", "nr", "mm", "um"] {
                let has = flags.split(' ').any(|one| one == flag);
                assert_eq!(has, vma.has_flag(flag), "{flag}: {flags:?} of {vma:?}");
            }
            advised += u32::from(vma.has_flag("hg") || vma.has_flag("nh"));
        }
        assert!(advised >= 2, "{told:?}");
        assert!(walk.areas(child.id()).is_err() || walk.areas(child.id()).is_ok_and(|areas| areas.is_empty()));
    }
}
