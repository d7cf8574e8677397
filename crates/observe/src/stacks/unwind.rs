//! From registers and a copy of the stack to the addresses of the frames.
//!
//! The registers of each caller are found by the unwind information of the file that its code is in ([`super::cfi`]), by frame pointers
//! where there is none. A register that a function saved is read from the stack only when somebody asks for it: most are
//! never asked for, and each word that was read must be compared when the result is kept.
//!
//! Whatever a file claims, a stack takes a bounded time: so many frames, so many steps of an expression, so much CPU time.

use gimli::{Evaluation, EvaluationResult, Value};

use super::cfi::{BP, Bytes, Cfa, IP, Machine, Piece, Row, SLOTS, SP, Saved, Scratch, Table};
use super::hostile::guarded;
use super::kept::{Place, Results, Words, word};
use super::modules::{Modules, Rule};
use super::patience::thread_cpu_ns;
use super::spaces::Space;

/// Frames that a stack is followed for.
const FRAMES_MAX: usize = 1024;
/// Steps of one expression; those that compilers write have under ten.
const STEPS_MAX: u32 = 256;
/// CPU time that one stack may take, ns: unwinding one takes some 20 us, with what is read for it the first time more.
const STACK_NS: u64 = 50_000_000;

/// How a stack of user space ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// At the function that the thread began in.
    Entry,
    /// Where the copy of the stack, or the longest chain of frame pointers, ended.
    Cut,
    /// Where it could not be followed further.
    Broken,
}

impl End {
    /// The word for it in the recording.
    pub fn name(self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::Cut => "cut",
            Self::Broken => "broken",
        }
    }
}

/// Unwinds; keeps rules and results between samples.
#[derive(Default)]
pub(super) struct Unwinding {
    scratch: Scratch,
    kept: Results,
    read: Words,
    /// Samples whose result was kept from an earlier one.
    pub hits: u64,
}

impl Unwinding {
    /// The stack found at this place before, if the stack is still as it was then. It had ended at the thread's entry.
    pub(super) fn kept(&mut self, place: &Place, copy: &[u8]) -> Option<u64> {
        let stack_id = self.kept.find(place, copy, &mut self.read)?;
        self.hits += 1;
        Some(stack_id)
    }

    /// The words that the last stack was made from: offsets in the copy and the 8 bytes there.
    pub(super) fn read(&self) -> &[(u32, u64)] {
        &self.read
    }

    /// Keeps the result of the last [`Unwinding::unwind`].
    pub(super) fn keep(&mut self, place: Place, stack_id: u64) {
        self.kept.keep(place, &self.read, stack_id);
    }

    /// The next result to be kept was not read from the stack.
    pub(super) fn forget_reads(&mut self) {
        self.read.clear();
    }

    /// Follows the stack. `frames` gets the addresses to look up, innermost first: of callers the last byte of the call.
    pub(super) fn unwind(
        &mut self,
        space: &mut Space,
        modules: &mut Modules,
        [ip, sp, bp]: [u64; 3],
        Copied { machine, bytes, cut }: Copied<'_>,
        frames: &mut Vec<u64>,
    ) -> End {
        self.read.clear();
        frames.push(ip);
        if space.is_given_up() || space.compat && machine != Machine::X86 {
            return End::Broken;
        }
        let begun_ns = thread_cpu_ns();
        let Self { scratch, read, .. } = self;
        let mut walk = Walk {
            registers: Registers::innermost(ip, sp, bp),
            stack: Stack { machine, sp, copy: bytes, read, is_left: false },
            finder: Finder { space, modules, scratch, until_ns: begun_ns.saturating_add(STACK_NS) },
        };
        let failed = guarded("the unwind information of a process", || walk.follow(frames));
        let end = match failed {
            Some(Ok(())) => End::Entry,
            Some(Err(Failure::TooLong)) => End::Cut,
            Some(Err(Failure::Read(addr))) if cut && addr.wrapping_sub(sp).saturating_add(8) > bytes.len() as u64 => {
                End::Cut
            }
            Some(Err(_)) | None => End::Broken,
        };
        space.unwound(failed.is_some(), thread_cpu_ns().saturating_sub(begun_ns));
        end
    }
}

/// Why a stack could not be followed.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// The stack has no such address, as far as it was copied.
    Read(u64),
    /// It goes on, beyond what is followed or was copied.
    TooLong,
    /// The rules lead nowhere.
    Lost,
}

/// The copy of a sample's stack.
#[derive(Debug, Clone, Copy)]
pub(super) struct Copied<'a> {
    pub machine: Machine,
    /// From the stack pointer on.
    pub bytes: &'a [u8],
    /// The stack goes on.
    pub cut: bool,
}

/// The stack that is being followed, as far as it was copied.
struct Stack<'a> {
    machine: Machine,
    sp: u64,
    copy: &'a [u8],
    read: &'a mut Words,
    /// A signal's handler had this stack for itself; what it interrupted had another, which was not copied.
    is_left: bool,
}

impl Stack<'_> {
    fn read(&mut self, addr: u64) -> Result<u64, Failure> {
        let found = usize::try_from(addr.wrapping_sub(self.sp)).ok().and_then(|at| Some((at, word(self.copy, at)?)));
        let (at, value) = found.ok_or(if self.is_left { Failure::TooLong } else { Failure::Read(addr) })?;
        self.read.push((at as u32, value));
        Ok(value & self.mask())
    }

    /// Bytes of an address.
    fn word(&self) -> u64 {
        u64::from(self.machine.bytes())
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - 8 * self.word())
    }

    /// Notes where the stack goes on below a signal.
    fn goes_on_at(&mut self, sp: u64) {
        self.is_left |= sp.wrapping_sub(self.sp) > self.copy.len() as u64;
    }
}

/// What is known of a register.
#[derive(Debug, Clone, Copy)]
enum Held {
    Unknown,
    Value(u64),
    /// It was saved there.
    At(u64),
}

/// The registers of one frame.
#[derive(Debug, Clone, Copy)]
struct Registers([Held; SLOTS]);

impl Registers {
    fn innermost(ip: u64, sp: u64, bp: u64) -> Self {
        let mut held = [Held::Unknown; SLOTS];
        (held[IP], held[SP], held[BP]) = (Held::Value(ip), Held::Value(sp), Held::Value(bp));
        Self(held)
    }

    fn get(&mut self, slot: usize, stack: &mut Stack<'_>) -> Result<u64, Failure> {
        let held = self.0.get_mut(slot).ok_or(Failure::Lost)?;
        match *held {
            Held::Unknown => Err(Failure::Lost),
            Held::Value(value) => Ok(value),
            Held::At(addr) => {
                let value = stack.read(addr)?;
                *held = Held::Value(value);
                Ok(value)
            }
        }
    }
}

/// What finds the rules.
struct Finder<'a> {
    space: &'a mut Space,
    modules: &'a mut Modules,
    scratch: &'a mut Scratch,
    until_ns: u64,
}

impl Finder<'_> {
    /// The rule for an address, and the module that it is in. `exact` says that the address is no return address.
    fn rule(&mut self, addr: u64, exact: bool) -> Result<(u32, Rule), Failure> {
        let Some((module, offset)) = self.space.find_code(addr, self.modules) else {
            return Ok((u32::MAX, Rule::FramePointer));
        };
        let (rule, known) = self.modules.rule(module, offset, exact, self.scratch);
        // To ask for the time takes longer than a rule that is known.
        if !known && thread_cpu_ns() > self.until_ns {
            return Err(Failure::Lost);
        }
        Ok((module, rule))
    }
}

/// A stack that is being followed.
struct Walk<'a> {
    registers: Registers,
    stack: Stack<'a>,
    finder: Finder<'a>,
}

impl Walk<'_> {
    /// Follows the stack from its innermost frame, which `frames` has, to the thread's entry.
    fn follow(&mut self, frames: &mut Vec<u64>) -> Result<(), Failure> {
        let ip = self.registers.get(IP, &mut self.stack)?;
        let mut exact = true;
        let (mut module, mut rule) = self.finder.rule(ip, exact)?;
        while frames.len() < FRAMES_MAX {
            let caller = match rule {
                Rule::Row(row) => match self.by_row(module, &row, exact) {
                    // The rule asks for a register that nobody has saved; the frame pointer may still be one.
                    Err(Failure::Lost) => self.by_frame_pointer()?,
                    other => other?,
                },
                Rule::Signal => self.out_of_signal()?,
                Rule::Uncovered if exact => self.by_return()?,
                Rule::Uncovered | Rule::FramePointer => self.by_frame_pointer()?,
            };
            let Some(caller) = caller else { return Ok(()) };
            // A return address belongs to the call before it. What a signal interrupted did not call.
            exact = rule.is_signal();
            let addr = if exact { caller } else { caller.wrapping_sub(1) };
            (module, rule) = self.finder.rule(addr, exact)?;
            // Nobody calls what a handler returns to: the kernel puts the address of its beginning on the stack.
            frames.push(if rule.is_signal() { caller } else { addr });
        }
        Err(Failure::TooLong)
    }

    /// The caller by the unwind information of the module; none if there is no caller.
    fn by_row(&mut self, module: u32, row: &Row, exact: bool) -> Result<Option<u64>, Failure> {
        let (ip, sp) = (self.registers.get(IP, &mut self.stack)?, self.registers.get(SP, &mut self.stack)?);
        if row.saved[IP] == Saved::Unknown {
            return Ok(None);
        }
        let cfa = match row.cfa {
            Cfa::Register(slot, offset) => {
                let value = self.registers.get(usize::from(slot), &mut self.stack)?;
                value.checked_add_signed(i64::from(offset)).ok_or(Failure::Lost)? & self.stack.mask()
            }
            Cfa::Expression(piece) => self.evaluate(module, row, piece, None)?,
        };
        let mut callers = self.registers;
        for (slot, saved) in row.saved.into_iter().enumerate() {
            if saved != Saved::Same {
                callers.0[slot] = self.saved(module, row, saved, cfa);
            }
        }
        let caller = callers.get(IP, &mut self.stack)?;
        let callers_sp = callers.get(SP, &mut self.stack)?;
        // A signal's handler may have had another stack.
        let goes_back = !row.signal && (callers_sp < sp && !exact || callers_sp == sp && caller == ip);
        if goes_back {
            return Err(Failure::Lost);
        }
        self.registers = callers;
        if row.signal {
            self.stack.goes_on_at(callers_sp);
        }
        Ok((caller != 0).then_some(caller))
    }

    /// A register of the caller, as far as it can be known without reading the stack.
    fn saved(&mut self, module: u32, row: &Row, saved: Saved, cfa: u64) -> Held {
        match saved {
            Saved::Same | Saved::Unknown => Held::Unknown,
            Saved::At(offset) => Held::At(cfa.wrapping_add_signed(i64::from(offset))),
            Saved::Is(offset) => Held::Value(cfa.wrapping_add_signed(i64::from(offset))),
            Saved::In(slot) => self.registers.0[usize::from(slot)],
            Saved::AtExpression(piece) => self.evaluate(module, row, piece, Some(cfa)).map_or(Held::Unknown, Held::At),
            Saved::IsExpression(piece) => {
                self.evaluate(module, row, piece, Some(cfa)).map_or(Held::Unknown, Held::Value)
            }
        }
    }

    fn evaluate(&mut self, module: u32, row: &Row, piece: Piece, cfa: Option<u64>) -> Result<u64, Failure> {
        let Self { registers, stack, finder } = self;
        let bytes = finder.modules.table(module).and_then(|table: &Table| table.expression(piece));
        evaluate(bytes.ok_or(Failure::Lost)?, row.encoding, cfa, registers, stack)
    }

    /// From where a signal's handler returns to: the registers lie on the stack as the kernel has put them there
    /// (`struct ucontext` and in it `struct sigcontext`, arch/x86/include/uapi/asm).
    fn out_of_signal(&mut self) -> Result<Option<u64>, Failure> {
        const BEHIND: u64 = 40;
        const ORDER: [u16; 17] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16];
        let sp = self.registers.get(SP, &mut self.stack)?;
        let first = sp.checked_add(BEHIND).ok_or(Failure::Lost)?;
        for (addr, number) in (first..).step_by(8).zip(ORDER) {
            if let Some(slot) = Machine::X86_64.slot(gimli::Register(number)) {
                self.registers.0[slot] = Held::At(addr);
            }
        }
        let caller = self.registers.get(IP, &mut self.stack)?;
        let callers_sp = self.registers.get(SP, &mut self.stack)?;
        self.stack.goes_on_at(callers_sp);
        Ok(Some(caller))
    }

    /// The caller of a function that has not touched the stack, or has cleared it up.
    fn by_return(&mut self) -> Result<Option<u64>, Failure> {
        let sp = self.registers.get(SP, &mut self.stack)?;
        let caller = self.stack.read(sp)?;
        self.registers.0[SP] = Held::Value(sp.checked_add(self.stack.word()).ok_or(Failure::Lost)?);
        self.registers.0[IP] = Held::Value(caller);
        Ok((caller != 0).then_some(caller))
    }

    fn by_frame_pointer(&mut self) -> Result<Option<u64>, Failure> {
        let bp = self.registers.get(BP, &mut self.stack)?;
        // By the ABI it marks the outermost frame. The dynamic linker's first function says it in no other way.
        if bp == 0 {
            return Ok(None);
        }
        let sp = self.registers.get(SP, &mut self.stack)?;
        let word = self.stack.word();
        let callers_sp = bp.checked_add(2 * word).filter(|callers| *callers > sp).ok_or(Failure::Lost)?;
        let caller = self.stack.read(callers_sp - word)?;
        self.registers.0[BP] = Held::At(bp);
        self.registers.0[SP] = Held::Value(callers_sp);
        self.registers.0[IP] = Held::Value(caller);
        Ok((caller != 0).then_some(caller))
    }
}

/// The value of an expression, in at most [`STEPS_MAX`] steps; `first` lies on its stack before.
fn evaluate(
    bytes: Bytes<'_>,
    encoding: gimli::Encoding,
    first: Option<u64>,
    registers: &mut Registers,
    stack: &mut Stack<'_>,
) -> Result<u64, Failure> {
    let mut evaluation = Evaluation::new(bytes, encoding);
    evaluation.set_max_iterations(STEPS_MAX);
    if let Some(first) = first {
        evaluation.set_initial_value(first);
    }
    let mut result = evaluation.evaluate();
    loop {
        result = match result {
            Ok(EvaluationResult::Complete) => break,
            Ok(EvaluationResult::RequiresRegister { register, .. }) => {
                let value = registers.get(stack.machine.slot(register).ok_or(Failure::Lost)?, stack)?;
                evaluation.resume_with_register(Value::Generic(value))
            }
            Ok(EvaluationResult::RequiresMemory { address, size: size @ 1..=8, space: None, .. }) => {
                let beyond = 64 - 8 * u32::from(size);
                evaluation.resume_with_memory(Value::Generic(stack.read(address)? << beyond >> beyond))
            }
            Ok(_) | Err(_) => return Err(Failure::Lost),
        }
    }
    match evaluation.as_result() {
        [gimli::Piece { location: gimli::Location::Address { address }, .. }] => Ok(*address),
        _ => Err(Failure::Lost),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;
    use std::sync::Mutex;

    use gimli::{EndianSlice, Format, LittleEndian};
    use pagelab_vocab::abi::PROT_EXEC;

    use super::super::modules::MappedAt;
    use super::super::spaces::Mapped;
    use super::*;
    use crate::process::MapsLine;

    fn value_of(bytes: &[u8], first: Option<u64>, words: &[u64]) -> Result<u64, Failure> {
        let encoding = gimli::Encoding { address_size: 8, format: Format::Dwarf32, version: 1 };
        let copy: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut read = Words::new();
        let machine = Machine::X86_64;
        let mut stack = Stack { machine, sp: 0x1000, copy: &copy, read: &mut read, is_left: false };
        let mut registers = Registers::innermost(0x5000, 0x1000, 0x1010);
        evaluate(EndianSlice::new(bytes, LittleEndian), encoding, first, &mut registers, &mut stack)
    }

    #[test]
    fn an_expression_has_a_limited_number_of_steps() {
        // DW_OP_breg7 8, with DW_OP_deref what lies there; DW_OP_breg6 0; DW_OP_plus_uconst 8 on the frame address.
        assert_eq!(value_of(&[0x77, 8], None, &[]), Ok(0x1008));
        assert_eq!(value_of(&[0x77, 8, 0x06], None, &[1, 2]), Ok(2));
        assert_eq!(value_of(&[0x76, 0], None, &[]), Ok(0x1010));
        assert_eq!(value_of(&[0x23, 8], Some(0x2000), &[]), Ok(0x2008));
        assert_eq!(value_of(&[0x77, 16, 0x06], None, &[1, 2]), Err(Failure::Read(0x1010)));
        // DW_OP_skip -3; a branch that is always taken; a register that nobody knows.
        for endless in
            [&[0x2f, 0xfd, 0xff][..], &[0x30, 0x31, 0x28, 0xfb, 0xff], &[0x77, 0, 0x13, 0x2f, 0xfa, 0xff], &[0x70, 0]]
        {
            assert_eq!(value_of(endless, None, &[]), Err(Failure::Lost), "{endless:x?}");
        }
    }

    fn whole(bytes: &[u8]) -> Copied<'_> {
        Copied { machine: Machine::X86_64, bytes, cut: true }
    }

    /// This process's own code.
    fn own_space(modules: &mut Modules) -> Space {
        let pid = std::process::id();
        let mut space = Space::default();
        space.pid = pid;
        for line in MapsLine::parse_all(&MapsLine::read(pid)) {
            let MapsLine { start, end, prot, offset, dev, ino, path, .. } = line;
            let code = prot & PROT_EXEC != 0;
            let is_file = Path::new(OsStr::from_bytes(path)).is_absolute();
            let module = match path {
                b"[vdso]" => modules.vdso(),
                path if is_file => modules.file((dev, ino, path), MappedAt { pid, start, end }, code),
                _ => continue,
            };
            space.map(start..end, Mapped { module, offset, code, covered: false });
        }
        space
    }

    /// Registers, and the stack from the stack pointer on.
    struct Snapshot {
        regs: [u64; 3],
        copy: Vec<u8>,
    }

    /// A signal's frame among it, which has 10 KiB where the processor has tiles.
    const COPIED: usize = 24 << 10;
    static TAKEN: Mutex<Option<Snapshot>> = Mutex::new(None);

    #[inline(never)]
    fn snapshot() -> Snapshot {
        let (ip, sp, bp): (u64, u64, u64);
        // SAFETY: reads three registers.
        unsafe {
            std::arch::asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) ip, out(reg) sp, out(reg) bp);
        }
        // SAFETY: there is more than that above this frame (`with_room`).
        let copy = unsafe { std::slice::from_raw_parts(sp as *const u8, COPIED) }.to_vec();
        Snapshot { regs: [ip, sp, bp], copy }
    }

    /// Calls what copies so much of the stack, of which a new thread has little: below frames of its own that are as long together.
    fn with_room<T>(work: fn() -> T) -> T {
        let top = 0_u8;
        below(std::hint::black_box(&raw const top as usize), work)
    }

    #[inline(never)]
    fn below<T>(top: usize, work: fn() -> T) -> T {
        let here = 0_u8;
        let is_far = top - std::hint::black_box(&raw const here as usize) > COPIED;
        let done = if is_far { work() } else { below(top, work) };
        std::hint::black_box(&raw const here);
        done
    }

    extern "C" fn on_signal(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        *TAKEN.lock().expect("nobody panics") = Some(snapshot());
    }

    #[inline(never)]
    fn interrupted() -> u64 {
        // SAFETY: sends a signal to this thread, which has a handler.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGURG) };
        std::hint::black_box(interrupted as *const () as u64)
    }

    #[test]
    fn a_stack_goes_on_below_a_signal_that_interrupted_it() {
        // SAFETY: sigaction is plain data, for which zero is a value; the handler has the signature that SA_SIGINFO asks for.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGURG, &raw const action, std::ptr::null_mut()), 0);
        }
        let inside = std::thread::spawn(|| with_room(interrupted)).join().expect("it returns");
        let Snapshot { regs, copy } = TAKEN.lock().expect("nobody panics").take().expect("the handler was called");
        let mut modules = Modules::default();
        let mut space = own_space(&mut modules);
        let mut frames = Vec::new();
        let end = Unwinding::default().unwind(&mut space, &mut modules, regs, whole(&copy), &mut frames);
        let symbol = |addr: &u64| {
            // SAFETY: fills the structure that it is given, with names that live as long as their library.
            unsafe {
                let mut found: libc::Dl_info = std::mem::zeroed();
                if libc::dladdr(*addr as *const libc::c_void, &raw mut found) == 0 || found.dli_sname.is_null() {
                    return String::new();
                }
                std::ffi::CStr::from_ptr(found.dli_sname).to_string_lossy().into_owned()
            }
        };
        let names: Vec<String> = frames.iter().map(symbol).collect();
        let position = frames.iter().position(|addr| (inside..inside + 0x100).contains(addr));
        assert!(position.is_some_and(|at| at > 3), "{frames:x?} {names:?} {end:?}");
        assert!(frames.len() > 6 && matches!(end, End::Entry | End::Cut), "{names:?} {end:?}");
    }

    #[test]
    fn a_stack_of_this_process_is_followed_and_takes_few_words() {
        let Snapshot { regs, copy } = std::thread::spawn(|| with_room(snapshot)).join().expect("it returns");
        let mut modules = Modules::default();
        let (mut space, mut unwinding) = (own_space(&mut modules), Unwinding::default());
        let mut frames = Vec::new();
        unwinding.unwind(&mut space, &mut modules, regs, whole(&copy), &mut frames);
        assert!(frames.len() > 5, "{frames:x?}");
        assert!(unwinding.read().len() < 3 * frames.len(), "{}", unwinding.read().len());
        let first = frames.clone();
        frames.clear();
        unwinding.unwind(&mut space, &mut modules, regs, whole(&copy), &mut frames);
        assert_eq!(first, frames, "rules that are kept are the same");
    }
}
