//! From samples to stacks of frames, and from frames to names.
//!
//! While recording, [`Stacks`] keeps for every recorded address space which files are mapped where, unwinds the stacks
//! of user space, and gives stacks and frames their ids. A frame is then what is known without looking anything up: the
//! module and the offset in it. Names are looked up at the end by [`Stacks::name_all`], when the workload has ended: it says what
//! each frame became, which may be several (functions that the compiler inlined) and which has another id, because a
//! frame's id is a hash of its content.
//!
//! Unwinding is by `.eh_frame` or `.debug_frame`, read by gimli, where a module has them, else by frame pointers. Names are those of
//! symbol tables and debug information ([`names`]), of files in which runtimes name code that they make ([`jit`]), and of `/proc/kallsyms`.

mod budget;
mod cfi;
mod frame;
mod hostile;
mod image;
mod jit;
mod kallsyms;
mod kept;
mod kernel;
mod mapped;
mod modules;
mod namer;
mod names;
mod patience;
mod places;
mod roots;
pub(crate) mod rows;
mod section;
mod spaces;
mod symbols;
mod unwind;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pagelab_recording::lifetimes::{self, Lifetimes};
use pagelab_recording::space::Change;
use pagelab_vocab::abi::{MAP_ANONYMOUS, PROT_EXEC};
use twox_hash::XxHash64;

pub use frame::{Frame, stack_id};
pub use places::PlaceNews;
pub use unwind::End;

use crate::bpf::{ByNumber, Event, MapEvent, Special, TaskEvent, TaskOp};
use crate::cpu::{Sample, Unwinding as Mode};
use crate::perf::code::CodeMapping;
use crate::process::MapsLine;
use cfi::Machine;
use kept::Place;
use kernel::Kernel;
use modules::{MappedAt, Module, Modules};
use places::{Meaning, Places};
use spaces::{Mapped, Space};
pub use symbols::{Lack, Lacks, Names};
use unwind::{Copied, Unwinding};

/// Stacks whose rows are remembered as written; beyond that some are written again, which a reader expects.
const STACKS_MAX: usize = 1 << 19;
/// Stacks of the kernel that are known by their addresses; all are forgotten when there are more.
const KERNEL_STACKS_MAX: usize = 1 << 16;
/// How often the names of code made at run time are read on.
const JIT_INTERVAL_NS: u64 = 1_000_000_000;

/// The stacks of one sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StackIds {
    /// The kernel's; none if the task was in user space.
    pub kernel: Option<u64>,
    /// User space's; none for tasks without memory of their own.
    pub user: Option<u64>,
    /// How the user's stack ended; none if only frame pointers were followed, which do not say.
    pub end: Option<End>,
}

/// A stack: its id and those of its frames, innermost first.
pub type Stack = (u64, Vec<u64>);

/// A frame as it is known while recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    /// [`KERNEL`], or a number of [`Modules`].
    module: u32,
    /// Offset in the module's file; in the kernel and in code made at run time, the address.
    offset: u64,
    /// Version of code made at run time.
    version: u32,
}

const KERNEL: u32 = u32::MAX;

/// See the module's manual.
pub struct Stacks {
    mode: Mode,
    kernel: Kernel,
    modules: Modules,
    spaces: HashMap<u32, Space>,
    /// The living tasks and their address spaces, with the process of each.
    tasks: Lifetimes<u32, u32>,
    /// The address space of each living process.
    of_pid: HashMap<u32, u32>,
    /// Address spaces whose last task has ended, and those of them whose last samples have been handed over.
    left: Vec<u32>,
    left_before: Vec<u32>,
    paths: ByNumber<Box<[u8]>>,
    unwinding: Unwinding,
    /// The frames that have a row, with their ids.
    frames: HashMap<Key, u64>,
    /// Of frames in files of programs that make code, where a runtime may name them: its module and the address.
    by_runtime: HashMap<Key, (u32, u64)>,
    known_stacks: HashSet<u64>,
    /// Stacks of the kernel by the hash of their addresses.
    kernel_stacks: HashMap<u64, u64>,
    places: Places,
    /// The last stack of user space is that of the frame pointers.
    chained: bool,
    next_jit_ns: u64,
    addrs: Vec<u64>,
    new_frames: Vec<(u64, Frame)>,
    new_stacks: Vec<Stack>,
}

impl Stacks {
    /// Stacks of the tree whose first task is process `pid`.
    pub fn new(mode: Mode, pid: u32) -> Self {
        let mut tasks = Lifetimes::default();
        tasks.begin(1, Some(1), pid);
        Self {
            mode,
            kernel: Kernel::read(Path::new("/")),
            modules: Modules::default(),
            spaces: HashMap::new(),
            tasks,
            of_pid: HashMap::new(),
            left: Vec::new(),
            left_before: Vec::new(),
            paths: ByNumber::default(),
            unwinding: Unwinding::default(),
            frames: HashMap::new(),
            by_runtime: HashMap::new(),
            known_stacks: HashSet::new(),
            kernel_stacks: HashMap::new(),
            places: Places::default(),
            chained: false,
            next_jit_ns: 0,
            addrs: Vec::new(),
            new_frames: Vec::new(),
            new_stacks: Vec::new(),
        }
    }

    /// Looks up what is needed to give stacks to tasks that go to sleep ([`Stacks::of_task`]).
    pub fn with_off_cpu(mut self) -> Self {
        self.kernel.find_schedule(Path::new("/"));
        self
    }

    /// Whether samples taken before the event must be handed over before it: it takes away code.
    pub fn takes_away(&self, event: &Event) -> bool {
        let Event::Map(map) = event else { return false };
        let Some(space) = self.spaces.get(&map.mm_id).filter(|_| map.kind == "call") else { return false };
        spaces::change_of(map).is_some_and(|change| space.is_touched_by(&change))
    }

    /// Notes the names of files. All names of a batch of events come first: other events may refer to later ones.
    pub fn name_files(&mut self, events: &[Event]) {
        for event in events {
            if let Event::Path(named) = event {
                let path = named.path.as_ref().map_or(b"".as_slice(), |path| path.as_bytes());
                self.paths.insert(named.path_id, path.into());
            }
        }
    }

    /// Takes note of a task or a mapping.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Task(task) => self.task(task),
            Event::Map(map) => self.map(map),
            Event::Path(_) | Event::Used(_) => {}
        }
    }

    fn task(&mut self, task: &TaskEvent) {
        // Kernel threads have no memory of their own.
        let Some(mm_id) = task.mm_id else { return };
        let op = match task.op {
            TaskOp::Exit => lifetimes::TaskOp::Exit,
            TaskOp::Leave => lifetimes::TaskOp::Leave,
            _ => lifetimes::TaskOp::Comm,
        };
        let of_parent = task.parent_task_id.and_then(|parent| self.tasks.mm_of(&parent));
        match task.op {
            TaskOp::Exit | TaskOp::Leave if task.tid == task.pid => _ = self.of_pid.remove(&task.pid),
            // A thread, or a child of vfork: what that maps next is its next program's, and not its parent's.
            TaskOp::Fork if of_parent == Some(mm_id) => {}
            TaskOp::Fork | TaskOp::Exec | TaskOp::Snapshot => _ = self.of_pid.insert(task.pid, mm_id),
            _ => {}
        }
        let left = self.tasks.note(op, task.task_id, Some(mm_id));
        if let Some(pid) = self.tasks.get_mut(&task.task_id) {
            *pid = task.pid;
        }
        self.left.extend(left);
    }

    /// Forgets the address spaces that nobody used any more at the last call. Samples older than that call must have been
    /// handed over.
    pub fn forget_left(&mut self) {
        let ripe = std::mem::replace(&mut self.left_before, std::mem::take(&mut self.left));
        for mm_id in ripe {
            if self.tasks.is_used(mm_id) {
                continue;
            }
            let jit = self.spaces.remove(&mm_id).and_then(|space| space.jit);
            if let Some(Module::Jit(jit)) = jit.and_then(|number| self.modules.get_mut(number)) {
                jit.ended();
            }
        }
    }

    fn map(&mut self, map: &MapEvent) {
        let Some(change) = spaces::change_of(map) else { return };
        let pid = self.tasks.get(&map.task_id).copied().unwrap_or(0);
        let space = self.spaces.entry(map.mm_id).or_default();
        if space.pid == 0 {
            space.pid = pid;
        }
        space.whole |= map.kind != "call";
        let mapped = match &change {
            Change::Map(made) => {
                let range = made.range();
                let is_vdso = map.special == Special::Vdso;
                space.compat |= is_vdso && spaces::is_compat(range.start);
                let path = map.path_id.and_then(|id| self.paths.get(id));
                let code = map.prot & PROT_EXEC != 0;
                let at = MappedAt { pid: space.pid, start: range.start, end: range.end };
                if is_vdso {
                    vdso_at(&mut self.modules, at)
                } else if let Some(path) = path.filter(|_| !is_without_file(map)) {
                    let module = self.modules.file((map.dev, map.ino, &**path), at, code);
                    Some(Mapped { module, offset: map.offset, code, covered: false })
                } else {
                    None
                }
            }
            _ => None,
        };
        space.apply(&change, mapped);
        self.note_dump(map.mm_id, mapped);
    }

    /// Notes that a runtime says what code it makes in a file that it has mapped.
    fn note_dump(&mut self, mm_id: u32, mapped: Option<Mapped>) {
        let Some(Mapped { module, code: true, .. }) = mapped else { return };
        if !self.modules.path(module).is_some_and(jit::is_dump) {
            return;
        }
        let file = match self.modules.get_mut(module) {
            Some(Module::Elf(elf)) => elf.file.as_ref().and_then(|file| file.try_clone().ok()),
            _ => None,
        };
        let Some(file) = file else { return };
        let (space, modules) = (self.spaces.entry(mm_id).or_default(), &mut self.modules);
        let pid = space.pid;
        let number = *space.jit.get_or_insert_with(|| modules.jit(pid));
        if let Some(Module::Jit(jit)) = self.modules.get_mut(number) {
            jit.add_dump(&file);
        }
    }

    /// Whether samples taken before a mapping of code must be handed over before it: something else was there.
    pub(crate) fn is_laid_over(&self, code: &CodeMapping) -> bool {
        let space = self.of_pid.get(&code.pid).and_then(|mm_id| self.spaces.get(mm_id));
        space.is_some_and(|space| space.is_any_in(&code.range()))
    }

    /// Notes code that a process has mapped; of processes that are not recorded nothing is kept.
    pub(crate) fn code_mapped(&mut self, code: &CodeMapping) {
        let Some(mm_id) = self.of_pid.get(&code.pid) else { return };
        let space = self.spaces.entry(*mm_id).or_default();
        if space.pid == 0 {
            space.pid = code.pid;
        }
        let (area, range) = (&code.area, code.range());
        let at = MappedAt { pid: code.pid, start: range.start, end: range.end };
        let mapped = match &*area.name {
            b"[vdso]" => {
                space.compat |= spaces::is_compat(range.start);
                vdso_at(&mut self.modules, at)
            }
            path if path.starts_with(b"/") && !path.starts_with(b"//") && !is_huge_memory(path) => {
                let module = self.modules.file((area.dev, area.ino, path), at, true);
                Some(Mapped { module, offset: area.offset, code: true, covered: false })
            }
            _ => return space.cover(&range),
        };
        let mm_id = *mm_id;
        if let Some(mapped) = mapped {
            space.map(range, mapped);
        }
        self.note_dump(mm_id, mapped);
    }

    /// Forgets that address spaces are known: each is asked again when a stack of it comes.
    pub fn read_all_maps_anew(&mut self) {
        for space in self.spaces.values_mut() {
            space.whole = false;
        }
    }

    /// The mappings of a space whose beginning was not seen, as far as its process can still be asked.
    fn read_maps(&mut self, mm_id: u32) {
        let Some(space) = self.spaces.get_mut(&mm_id) else { return };
        space.whole = true;
        let mut all = Vec::new();
        for line in MapsLine::parse_all(&MapsLine::read(space.pid)) {
            let MapsLine { start, end, prot, offset, dev, ino, path, .. } = line;
            let code = prot & PROT_EXEC != 0;
            space.compat |= path == b"[vdso]" && spaces::is_compat(start);
            let at = MappedAt { pid: space.pid, start, end };
            let mapped = match path {
                b"[vdso]" => vdso_at(&mut self.modules, at),
                path if path.starts_with(b"/") && !is_huge_memory(path) => {
                    let module = self.modules.file((dev, ino, path), at, code);
                    Some(Mapped { module, offset, code, covered: false })
                }
                _ => continue,
            };
            if let Some(mapped) = mapped {
                space.map(start..end, mapped);
            }
            all.push(mapped);
        }
        for mapped in all {
            self.note_dump(mm_id, mapped);
        }
    }

    /// Gives a sample its stacks. New frames and stacks are handed out by [`Stacks::take_new`].
    pub fn sample(&mut self, sample: &Sample<'_>) -> StackIds {
        let kernel = self.kernel_stack(sample, false);
        let (user, end) = self.user_stack(sample);
        StackIds { kernel, user, end }
    }

    /// Gives a task that went to sleep its stacks, that of the kernel from the scheduler on, or a mapping call its stack. `tell` is called with what the BPF program is to know of the place.
    pub fn of_task(&mut self, sample: &Sample<'_>, now_ns: u64, tell: &mut dyn FnMut(PlaceNews<'_>)) -> StackIds {
        let kernel = self.kernel_stack(sample, true);
        let Some(number) = sample.place else {
            let (user, end) = self.user_stack(sample);
            let ids = StackIds { kernel, user, end };
            self.learn(sample, ids, now_ns, tell);
            return ids;
        };
        let mm_id = self.space_of(sample);
        let generation = mm_id.and_then(|mm_id| self.spaces.get(&mm_id)).map_or(0, |space| space.generation);
        // Code was mapped or taken away since: the next stack from there is unwound anew. This one was the same in all
        // that unwinding had looked at.
        if !self.places.is_fresh(number, generation) {
            tell(PlaceNews::Stale);
        }
        let (user, end) = match (self.places.get(number), mm_id) {
            (Some(Meaning::Stack(id, end)), _) => (Some(id), end),
            (Some(Meaning::Chain), Some(mm_id)) if !sample.user.is_empty() => self.chain(mm_id, sample),
            _ => (None, None),
        };
        StackIds { kernel, user, end }
    }

    /// Lets the BPF program know a stack that was unwound from its copy.
    fn learn(&mut self, sample: &Sample<'_>, ids: StackIds, now_ns: u64, tell: &mut dyn FnMut(PlaceNews<'_>)) {
        let (Some(mm_id), Some(id)) = (sample.mm_id, ids.user) else { return };
        // A stack that ended where its copy did would go on if a page were there the next time.
        if sample.copy.is_empty() || (sample.copy_failed && ids.end != Some(End::Entry)) {
            return;
        }
        let generation = self.spaces.get(&mm_id).map_or(0, |space| space.generation);
        let place = Place { mm_id, generation, regs: sample.regs };
        let meaning = if self.chained { Meaning::Chain } else { Meaning::Stack(id, ids.end) };
        if let Some(number) = self.places.learn(place, meaning, sample.ts, now_ns) {
            tell(PlaceNews::Known { number, wants_chain: self.chained, read: self.unwinding.read() });
        }
    }

    fn user_stack(&mut self, sample: &Sample<'_>) -> (Option<u64>, Option<End>) {
        match self.space_of(sample) {
            Some(mm_id) if !sample.user.is_empty() || !sample.copy.is_empty() => self.user(mm_id, sample),
            _ => (None, None),
        }
    }

    /// The stack in the kernel; of a task that leaves the CPU without what looked at it.
    fn kernel_stack(&mut self, sample: &Sample<'_>, leaves_cpu: bool) -> Option<u64> {
        if sample.kernel.is_empty() {
            return None;
        }
        let hash = XxHash64::oneshot(u64::from(leaves_cpu), sample.kernel);
        if let Some(id) = self.kernel_stacks.get(&hash) {
            return Some(*id);
        }
        self.addrs.clear();
        self.addrs.extend(lookups(sample.kernel));
        if leaves_cpu {
            self.addrs.drain(..self.kernel.own_frames(&self.addrs));
        }
        let id = self.stack(None);
        if self.kernel_stacks.len() >= KERNEL_STACKS_MAX {
            self.kernel_stacks.clear();
        }
        self.kernel_stacks.insert(hash, id);
        Some(id)
    }

    /// The stack of these addresses in the kernel, innermost first, of a task that does not run; none if there are none.
    pub fn kernel_only(&mut self, addrs: &[u64]) -> Option<u64> {
        if addrs.is_empty() {
            return None;
        }
        self.addrs.clear();
        // All but the innermost are return addresses.
        self.addrs.extend(addrs.iter().enumerate().map(|(depth, addr)| addr.wrapping_sub(u64::from(depth > 0))));
        Some(self.stack(None))
    }

    fn space_of(&self, sample: &Sample<'_>) -> Option<u32> {
        sample.mm_id.or_else(|| self.tasks.mm_of(&sample.task_id))
    }

    /// The state of the address space that a sample was taken in, which is looked at if it was not seen to begin.
    fn generation_at(&mut self, mm_id: u32, sample: &Sample<'_>) -> u32 {
        let space = self.spaces.entry(mm_id).or_default();
        if space.pid == 0 {
            space.pid = sample.pid;
        }
        if !space.whole {
            self.read_maps(mm_id);
        }
        self.spaces.entry(mm_id).or_default().generation
    }

    /// The stack by the chain of frame pointers.
    fn chain(&mut self, mm_id: u32, sample: &Sample<'_>) -> (Option<u64>, Option<End>) {
        let generation = self.generation_at(mm_id, sample);
        let chain = [XxHash64::oneshot(0, sample.user), sample.user.len() as u64, 0];
        let place = Place { mm_id, generation, regs: chain };
        let end = sample.user_cut.then_some(End::Cut);
        if let Some(id) = self.unwinding.kept(&place, &[]) {
            return (Some(id), end);
        }
        self.addrs.clear();
        self.addrs.extend(lookups(sample.user));
        let id = self.stack(Some(mm_id));
        self.unwinding.forget_reads();
        self.unwinding.keep(place, id);
        (Some(id), end)
    }

    fn user(&mut self, mm_id: u32, sample: &Sample<'_>) -> (Option<u64>, Option<End>) {
        self.chained = sample.copy.is_empty();
        if self.chained {
            return self.chain(mm_id, sample);
        }
        let generation = self.generation_at(mm_id, sample);
        let space = self.spaces.entry(mm_id).or_default();
        let place = Place { mm_id, generation, regs: sample.regs };
        if let Some(id) = self.unwinding.kept(&place, sample.copy) {
            return (Some(id), Some(End::Entry));
        }
        self.addrs.clear();
        let mut addrs = std::mem::take(&mut self.addrs);
        let machine = if sample.is_32_bit { Machine::X86 } else { Machine::X86_64 };
        let copy = Copied { machine, bytes: sample.copy, cut: sample.copy_cut };
        let mut end = Some(self.unwinding.unwind(space, &mut self.modules, sample.regs, copy, &mut addrs));
        if end != Some(End::Entry) && self.mode == Mode::Auto && sample.user.len() / 8 > addrs.len() {
            self.chained = true;
            addrs.clear();
            addrs.extend(lookups(sample.user));
            end = sample.user_cut.then_some(End::Cut);
        }
        self.addrs = addrs;
        let id = self.stack(Some(mm_id));
        // Code made at run time may be named anew while registers and stack look the same.
        if end == Some(End::Entry) {
            self.unwinding.keep(place, id);
        }
        (Some(id), end)
    }

    /// The id of the stack of the addresses in `addrs`, of the kernel or of an address space.
    fn stack(&mut self, mm_id: Option<u32>) -> u64 {
        let addrs = std::mem::take(&mut self.addrs);
        let ids: Vec<u64> = addrs
            .iter()
            .map(|addr| {
                let (key, name) = match mm_id {
                    None => (Key { module: KERNEL, offset: *addr, version: 0 }, None),
                    Some(mm_id) => self.key(mm_id, *addr),
                };
                self.frame(key, name)
            })
            .collect();
        self.addrs = addrs;
        let id = stack_id(&ids);
        if self.known_stacks.len() >= STACKS_MAX {
            self.known_stacks.clear();
        }
        if self.known_stacks.insert(id) {
            self.new_stacks.push((id, ids));
        }
        id
    }

    /// Where an address of user space lies; also the name of code made at run time that is not the first there.
    fn key(&mut self, mm_id: u32, addr: u64) -> (Key, Option<String>) {
        let space = self.spaces.entry(mm_id).or_default();
        let (modules, pid) = (&mut self.modules, space.pid);
        let place = space.find_code(addr, modules);
        if let Some((module, offset)) = place
            && !modules.is_bare(module)
        {
            let key = Key { module, offset, version: 0 };
            if let Some(runtime) = space.jit.filter(|_| !self.frames.contains_key(&key)) {
                self.ask_runtime(key, runtime, addr);
            }
            return (key, None);
        }
        let module = *space.jit.get_or_insert_with(|| modules.jit(pid));
        let Some(Module::Jit(jit)) = modules.get_mut(module) else {
            return (Key { module, offset: addr, version: 0 }, None);
        };
        if let Some((file, offset)) = place {
            jit.lies_in(addr, file, offset);
        }
        let sampled = jit.sampled(addr);
        (Key { module, offset: addr, version: sampled.0 }, sampled.1.map(str::to_owned))
    }

    /// Has a runtime asked for the name of code in a file, in case that has none.
    fn ask_runtime(&mut self, key: Key, runtime: u32, addr: u64) {
        if let Some(Module::Jit(jit)) = self.modules.get_mut(runtime) {
            jit.sampled(addr);
            self.by_runtime.insert(key, (runtime, addr));
        }
    }

    fn frame(&mut self, key: Key, name: Option<String>) -> u64 {
        if let Some(id) = self.frames.get(&key) {
            return *id;
        }
        let frame = self.unnamed(key, name);
        let id = frame.id();
        self.frames.insert(key, id);
        self.new_frames.push((id, frame));
        id
    }

    /// The frame before anything is looked up.
    fn unnamed(&mut self, key: Key, symbol: Option<String>) -> Frame {
        if key.module == KERNEL {
            return self.kernel.frame(key.offset);
        }
        let build_id = self.modules.image(key.module).and_then(|image| image.build_id.clone());
        match self.modules.get_mut(key.module) {
            Some(Module::Elf(elf)) => {
                Frame { module: Some(elf.path.clone()), build_id, module_offset: Some(key.offset), ..Frame::default() }
            }
            // The address tells one from the other until they have names.
            _ if symbol.is_none() => {
                Frame { module: Some(b"[jit]".to_vec()), module_offset: Some(key.offset), ..Frame::default() }
            }
            _ => Frame { symbol, module: Some(b"[jit]".to_vec()), ..Frame::default() },
        }
    }

    /// Reads on what runtimes say of the code that they make, once a second where such code was sampled.
    pub fn refresh_jit(&mut self, now_ns: u64) {
        if now_ns < self.next_jit_ns {
            return;
        }
        self.next_jit_ns = now_ns + JIT_INTERVAL_NS;
        self.modules.jit_budget().renew();
        for space in self.spaces.values_mut() {
            let Some(number) = space.jit else { continue };
            if let Some(Module::Jit(jit)) = self.modules.get_mut(number)
                && jit.is_used()
                && jit.refresh()
            {
                space.generation = space.generation.wrapping_add(1);
            }
        }
    }

    /// Frames and stacks that were met for the first time since the last call.
    pub fn take_new(&mut self) -> (Vec<(u64, Frame)>, Vec<Stack>) {
        (std::mem::take(&mut self.new_frames), std::mem::take(&mut self.new_stacks))
    }

    /// Samples whose stack was known from an earlier sample without unwinding.
    pub fn hits(&self) -> u64 {
        self.unwinding.hits
    }

    /// The files that code is mapped from, as far as they are open, each with its path.
    pub(crate) fn code_files(&self) -> Vec<(&[u8], &File)> {
        self.modules.files().collect()
    }

    /// Opens the files of code of a process that runs already, so that they are open when it ends soon.
    pub(crate) fn open_files_of(&mut self, pid: u32) {
        for line in MapsLine::parse_all(&MapsLine::read(pid)) {
            let MapsLine { start, end, prot, dev, ino, path, .. } = line;
            if prot & PROT_EXEC != 0 && path.starts_with(b"/") && !is_huge_memory(path) {
                self.modules.file((dev, ino, path), MappedAt { pid, start, end }, true);
            }
        }
    }

    /// The paths of files whose unwind information took too much time.
    pub(crate) fn given_up(&self) -> Vec<String> {
        self.modules.given_up().map(|path| String::from_utf8_lossy(path).into_owned()).collect()
    }

    /// Looks up the names of all frames. `hurry` says when it is to end.
    pub fn name_all(&mut self, hurry: &dyn Fn() -> bool) -> Names {
        self.modules.closing();
        symbols::name_all(&mut self.modules, &self.kernel, &self.frames, &self.by_runtime, hurry)
    }
}

/// The vDSO that is mapped there; none of a 32-bit program of which it cannot be read.
fn vdso_at(modules: &mut Modules, at: MappedAt) -> Option<Mapped> {
    let module = if spaces::is_compat(at.start) { modules.compat_vdso(at)? } else { modules.vdso() };
    Some(Mapped { module, offset: 0, code: true, covered: false })
}

/// Memory on huge pages of the pool has a file for the kernel, and none for anybody else.
fn is_huge_memory(path: &[u8]) -> bool {
    path.starts_with(b"/anon_hugepage")
}

fn is_without_file(map: &MapEvent) -> bool {
    map.flags & MAP_ANONYMOUS != 0
}

/// The addresses of a chain as they are to be looked up: a return address belongs to the call before it.
fn lookups(chain: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let words = chain.chunks_exact(8).filter_map(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
    words.enumerate().map(|(depth, addr)| if depth == 0 { addr } else { addr.wrapping_sub(1) })
}
