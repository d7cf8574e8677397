//! The files that code is mapped from: opened while they can be, read when the first sample falls into them.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use pagelab_residency::maps;

use super::cfi::{Row, Scratch, Table};
use super::hostile::{self, Origin};
use super::image::{Image, UNWIND_BYTES_MAX, image, image_of_file};
use super::jit::{self, Jit};
use super::patience::{Patience, thread_cpu_ns};
use super::roots::{Root, Roots};
use crate::process::living_tasks;

/// Descriptors that are kept open for files that may be gone when their symbols are asked for.
const OPEN_FILES_MAX: usize = 512;
/// Times that a file is looked at again, because it was opened through a process that could not be trusted.
const LOOKS_MAX: u8 = 4;
/// A look-up in unwind information that takes so long is slow, ns: they take some microseconds.
const SLOW_NS: u64 = 1_000_000;
/// Time of slow look-ups in one file after which its unwind information is given up, ns.
const FILE_NS: u64 = 50_000_000;
/// Bytes of the vDSO of 32-bit programs; it has two pages.
const COMPAT_VDSO_BYTES_MAX: u64 = 1 << 20;

/// Device, inode and path; the path tells a file from one that got the same inode later.
pub(super) type FileId<'a> = (u64, u64, &'a [u8]);

/// Where a module is mapped, as far as that helps to open its file.
#[derive(Debug, Clone, Copy)]
pub(super) struct MappedAt {
    pub pid: u32,
    pub start: u64,
    pub end: u64,
}

/// An ELF file, or the vDSO.
pub(super) struct Elf {
    pub path: Vec<u8>,
    pub file: Option<File>,
    /// Who may have written the file.
    pub origin: Origin,
    looks: u8,
    /// The vDSO's bytes.
    pub bytes: Option<Vec<u8>>,
    /// The root folder of a process that has it mapped.
    pub root: Option<Arc<Root>>,
    image: Option<Image>,
    /// Whether it is known to be no ELF file.
    bare: Option<bool>,
    slow_ns: u64,
}

impl Elf {
    fn of_file(path: &[u8]) -> Self {
        Self {
            path: path.to_vec(),
            file: None,
            origin: Origin::Unknown,
            looks: 0,
            bytes: None,
            root: None,
            image: None,
            bare: None,
            slow_ns: 0,
        }
    }

    fn of_vdso(bytes: Option<Vec<u8>>) -> Self {
        Self { bytes, origin: Origin::Trusted, ..Self::of_file(b"[vdso]") }
    }

    /// Some bytes from an offset in the file.
    fn read<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        if let Some(bytes) = &self.bytes {
            let from = usize::try_from(offset).ok()?;
            return bytes.get(from..from.checked_add(N)?)?.try_into().ok();
        }
        let mut bytes = [0; N];
        self.file.as_ref()?.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }
}

/// Where code may come from.
pub(super) enum Module {
    Elf(Elf),
    Jit(Jit),
}

/// How a caller is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// As the file's unwind information says.
    Row(Row),
    /// The code is that to which handlers of signals return, as its bytes say.
    Signal,
    /// The file has unwind information, and none for this place.
    Uncovered,
    /// There is none.
    FramePointer,
}

impl Rule {
    /// The frame that it leads to was interrupted by a signal.
    pub(super) fn is_signal(&self) -> bool {
        matches!(self, Self::Signal | Self::Row(Row { signal: true, .. }))
    }
}

/// Module, address in the file, and whether the address is no return address.
type Place = (u32, u64, bool);

/// Rules that are kept, each in the only place that it may have.
struct Rules(Box<[Option<(Place, Rule)>]>);

/// A prime number: functions begin at multiples of 16.
const RULES: usize = 2039;

impl Default for Rules {
    fn default() -> Self {
        Self(vec![None; RULES].into())
    }
}

impl Rules {
    fn at(&mut self, (module, addr, _): Place) -> &mut Option<(Place, Rule)> {
        let hash = addr.wrapping_add(u64::from(module).wrapping_mul(0x9e37_79b9));
        &mut self.0[(hash % RULES as u64) as usize]
    }

    fn get(&mut self, place: Place) -> Option<Rule> {
        self.at(place).filter(|(known, _)| *known == place).map(|(_, rule)| rule)
    }
}

/// All modules of all recorded address spaces; they are referred to by number.
#[derive(Default)]
pub(super) struct Modules {
    all: Vec<Module>,
    /// By device and inode; mostly there is one.
    files: HashMap<(u64, u64), Vec<u32>>,
    open_files: usize,
    unwind_bytes: usize,
    vdso: Option<u32>,
    /// That of 32-bit programs.
    compat_vdso: Option<u32>,
    jit_budget: Arc<jit::Budget>,
    roots: Roots,
    rules: Rules,
    patience: Patience,
    /// Files whose unwind information was given up.
    given_up: Vec<u32>,
}

impl Modules {
    /// The number of a file's module. `code` says that it is mapped for execution: then it is opened now.
    pub(super) fn file(&mut self, (dev, ino, path): FileId<'_>, at: MappedAt, code: bool) -> u32 {
        let same =
            |number: &&u32| matches!(self.all.get(**number as usize), Some(Module::Elf(elf)) if elf.path == path);
        let known = self.files.get(&(dev, ino)).and_then(|numbers| numbers.iter().find(same)).copied();
        let number = known.unwrap_or_else(|| {
            let number = self.push(Module::Elf(Elf::of_file(path)));
            self.files.entry((dev, ino)).or_default().push(number);
            number
        });
        if code {
            self.open(number, (dev, ino), at);
        }
        number
    }

    /// Opens the file of a module, if that is still to be done and can be.
    fn open(&mut self, number: u32, id: (u64, u64), at: MappedAt) {
        let room = self.open_files < OPEN_FILES_MAX;
        let Some(Module::Elf(elf)) = self.all.get_mut(number as usize) else { return };
        let is_wanted = elf.file.is_none() && room || elf.origin != Origin::Trusted && elf.looks < LOOKS_MAX;
        if elf.image.is_some() || !is_wanted {
            return;
        }
        elf.looks = elf.looks.saturating_add(1);
        let path = Path::new(OsStr::from_bytes(&elf.path));
        let opened = hostile::open_mapped(at.pid, &(at.start..at.end), path, id.1);
        // What is open under another name is the same file: nobody gets its inode as long as it is.
        let opened = opened.map(|opened| (opened.file, opened.origin)).or_else(|| self.opened_before(id));
        let Some(Module::Elf(elf)) = self.all.get_mut(number as usize) else { return };
        if let Some((file, origin)) = opened
            && (elf.file.is_none() || origin == Origin::Trusted)
        {
            self.open_files += usize::from(elf.file.is_none());
            (elf.file, elf.origin) = (Some(file), origin);
            elf.root = living_tasks(at.pid).find_map(|task| self.roots.of(task)).or_else(|| elf.root.take());
        }
    }

    fn opened_before(&self, id: (u64, u64)) -> Option<(File, Origin)> {
        let mut same = self.files.get(&id)?.iter().filter_map(|number| self.elf(*number));
        same.find_map(|elf| Some((elf.file.as_ref()?.try_clone().ok()?, elf.origin)))
    }

    /// The module of the vDSO: the kernel lends the same to every 64-bit program, this one included.
    pub(super) fn vdso(&mut self) -> u32 {
        if let Some(number) = self.vdso {
            return number;
        }
        let number = self.push(Module::Elf(Elf::of_vdso(own_vdso())));
        self.vdso = Some(number);
        number
    }

    /// The module of the vDSO of 32-bit programs, which is read from the first that can be. None until then.
    pub(super) fn compat_vdso(&mut self, at: MappedAt) -> Option<u32> {
        if self.compat_vdso.is_none() {
            let bytes = at.end.checked_sub(at.start).filter(|bytes| *bytes <= COMPAT_VDSO_BYTES_MAX)?;
            let mut vdso = vec![0; usize::try_from(bytes).ok()?];
            living_tasks(at.pid).find_map(|task| read_memory(task, at.start, &mut vdso))?;
            vdso.starts_with(b"\x7fELF").then_some(())?;
            self.compat_vdso = Some(self.push(Module::Elf(Elf::of_vdso(Some(vdso)))));
        }
        self.compat_vdso
    }

    /// Adds the code that a process makes by itself.
    pub(super) fn jit(&mut self, pid: u32) -> u32 {
        let jit = Jit::of(pid, Arc::clone(&self.jit_budget));
        self.push(Module::Jit(jit))
    }

    /// The files of code that are open, each with its path.
    pub(super) fn files(&self) -> impl Iterator<Item = (&[u8], &File)> {
        self.all.iter().filter_map(|module| match module {
            Module::Elf(elf) => Some((elf.path.as_slice(), elf.file.as_ref()?)),
            Module::Jit(_) => None,
        })
    }

    /// The bytes that may be read and kept of all files in which runtimes name code.
    pub(super) fn jit_budget(&self) -> &jit::Budget {
        &self.jit_budget
    }

    fn push(&mut self, module: Module) -> u32 {
        self.all.push(module);
        self.all.len() as u32 - 1
    }

    /// The module of a number.
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Module> {
        self.all.get_mut(number as usize)
    }

    fn elf(&self, number: u32) -> Option<&Elf> {
        match self.all.get(number as usize) {
            Some(Module::Elf(elf)) => Some(elf),
            _ => None,
        }
    }

    /// The facts from an ELF file's headers; read at first use. None while it is not open, and while files that others may
    /// have written have taken too much time.
    pub(super) fn image(&mut self, number: u32) -> Option<&Image> {
        let Some(Module::Elf(elf)) = self.all.get_mut(number as usize) else { return None };
        if elf.image.is_none() && (elf.file.is_some() || elf.bytes.is_some()) {
            let is_trusted = elf.origin == Origin::Trusted;
            if !is_trusted && !self.patience.is_left() {
                return None;
            }
            let begun_ns = thread_cpu_ns();
            let room = UNWIND_BYTES_MAX.saturating_sub(self.unwind_bytes);
            let read = match (&elf.file, &elf.bytes) {
                (Some(file), _) => image_of_file(file, &elf.path, room, is_trusted),
                (None, Some(bytes)) => image(&**bytes, room, None),
                (None, None) => None,
            };
            let (image, bytes) = read.unwrap_or_default();
            self.unwind_bytes += bytes;
            elf.image = Some(image);
            if !is_trusted {
                self.patience.spend(thread_cpu_ns().saturating_sub(begun_ns));
            }
        }
        elf.image.as_ref()
    }

    /// Whether a file is known to be no ELF file: code in it was made at run time.
    pub(super) fn is_bare(&mut self, number: u32) -> bool {
        let Some(Module::Elf(elf)) = self.all.get_mut(number as usize) else { return false };
        // Runtimes make code in these; programs are seldom run from one.
        let Some(file) = &elf.file else { return elf.path.starts_with(b"/memfd:") };
        *elf.bare.get_or_insert_with(|| {
            let mut magic = [0; 4];
            file.read_exact_at(&mut magic, 0).is_ok() && magic != *b"\x7fELF"
        })
    }

    /// The path of a module that is a file.
    pub(super) fn path(&self, number: u32) -> Option<&[u8]> {
        self.elf(number).map(|elf| elf.path.as_slice())
    }

    /// Whether as many files are open as may be.
    pub(super) fn is_full(&self) -> bool {
        self.open_files >= OPEN_FILES_MAX
    }

    /// The unwind information of a file that was read.
    pub(super) fn table(&self, number: u32) -> Option<&Table> {
        self.elf(number)?.image.as_ref()?.table.as_ref()
    }

    /// How the caller is found of code at an offset in a file. `exact` says that it is no return address. Also tells whether
    /// the rule was known, which takes no time.
    pub(super) fn rule(&mut self, number: u32, offset: u64, exact: bool, scratch: &mut Scratch) -> (Rule, bool) {
        let was_read = self.elf(number).is_some_and(|elf| elf.image.is_some());
        let Some(addr) = self.image(number).and_then(|image| image.code_address(offset)) else {
            return (Rule::FramePointer, was_read);
        };
        let place = (number, addr, exact);
        if let Some(rule) = self.rules.get(place) {
            return (rule, true);
        }
        let is_hostile = self.elf(number).is_some_and(|elf| elf.origin != Origin::Trusted);
        if is_hostile && !self.patience.is_left() {
            return (Rule::FramePointer, false);
        }
        let begun_ns = thread_cpu_ns();
        let row = self.table(number).map(|table| table.row(addr, scratch));
        let took_ns = thread_cpu_ns().saturating_sub(begun_ns);
        let rule = match row {
            Some(Some(row)) => Rule::Row(row),
            _ if self.is_trampoline(number, offset, exact) => Rule::Signal,
            Some(None) => Rule::Uncovered,
            None => Rule::FramePointer,
        };
        *self.rules.at(place) = Some((place, rule));
        if took_ns > SLOW_NS {
            self.took_long(number, took_ns);
        }
        (rule, false)
    }

    /// Gives the unwind information of a file up that takes too long.
    fn took_long(&mut self, number: u32, took_ns: u64) {
        let Some(Module::Elf(elf)) = self.all.get_mut(number as usize) else { return };
        if elf.origin != Origin::Trusted {
            self.patience.spend(took_ns);
        }
        elf.slow_ns += took_ns;
        if elf.slow_ns > FILE_NS
            && let Some(image) = &mut elf.image
            && image.table.take().is_some()
        {
            self.given_up.push(number);
            let path = String::from_utf8_lossy(&elf.path);
            tracing::warn!(
                "{} is unwound by frame pointers: its unwind information took too long",
                path.escape_debug()
            );
        }
    }

    /// Whether a handler of a signal returns there: `mov $15, %rax; syscall` calls rt_sigreturn. musl's and Go's is not, or not rightly,
    /// told by unwind information.
    fn is_trampoline(&self, number: u32, offset: u64, exact: bool) -> bool {
        const CODE: [u8; 9] = [0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05];
        /// Offset of the second instruction, and of what follows it: where the kernel was entered.
        const BEHIND: [u64; 3] = [0, 7, 9];
        let Some(elf) = self.elf(number) else { return false };
        let is_at = |offset: Option<u64>| offset.and_then(|offset| elf.read(offset)) == Some(CODE);
        if exact {
            BEHIND.iter().any(|behind| is_at(offset.checked_sub(*behind)))
        } else {
            is_at(offset.checked_add(1))
        }
    }

    /// Whether a process has, at most of some addresses, the code that a file has at some offsets. None if neither can be told.
    pub(super) fn is_code_of(&self, number: u32, pid: u32, places: &[(u64, u64)]) -> Option<bool> {
        const BYTES: usize = 32;
        let elf = self.elf(number)?;
        let task = living_tasks(pid).find(|task| File::open(format!("/proc/{task}/mem")).is_ok())?;
        let (mut same, mut compared) = (0, 0);
        for (addr, offset) in places {
            let mut there = [0; BYTES];
            let (Some(()), Some(wanted)) = (read_memory(task, *addr, &mut there), elf.read::<BYTES>(*offset)) else {
                continue;
            };
            compared += 1;
            same += usize::from(there == wanted);
        }
        (compared > 0).then_some(2 * same > compared)
    }

    /// The paths of files whose unwind information was given up.
    pub(super) fn given_up(&self) -> impl Iterator<Item = &[u8]> {
        self.given_up.iter().filter_map(|number| Some(self.elf(*number)?.path.as_slice()))
    }

    /// Recording has ended: what is still to be read gets a time of its own.
    pub(super) fn closing(&mut self) {
        self.patience = Patience::for_closing();
    }
}

/// Reads memory of a task.
fn read_memory(task: u32, addr: u64, into: &mut [u8]) -> Option<()> {
    File::open(format!("/proc/{task}/mem")).ok()?.read_exact_at(into, addr).ok()
}

/// This process's own vDSO.
fn own_vdso() -> Option<Vec<u8>> {
    let vdso = maps::list(Path::new("/proc/self")).ok()?.find(|vma| vma.path == b"[vdso]")?;
    let mut bytes = vec![0; usize::try_from(vdso.len_bytes()).ok()?];
    read_memory(std::process::id(), vdso.start, &mut bytes)?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vdso_is_an_elf_file_that_can_be_unwound() {
        let mut modules = Modules::default();
        let number = modules.vdso();
        let image = modules.image(number).expect("a vDSO");
        assert_eq!(image.address(0x10), Some(0x10));
        assert!(image.table.is_some() && image.build_id.is_some());
    }

    #[test]
    fn code_of_a_file_is_known_again_in_memory() {
        let mut modules = Modules::default();
        let vdso = modules.vdso();
        let own =
            maps::list(Path::new("/proc/self")).expect("/proc").find(|vma| vma.path == b"[vdso]").expect("a vDSO");
        let places = |shift: u64| [0x100, 0x200, 0x300].map(|offset| (own.start + offset, offset + shift));
        let is_same = |shift| modules.is_code_of(vdso, std::process::id(), &places(shift));
        assert_eq!((is_same(0), is_same(1)), (Some(true), Some(false)));
        assert_eq!(modules.is_code_of(vdso, std::process::id(), &[]), None);
    }
}
