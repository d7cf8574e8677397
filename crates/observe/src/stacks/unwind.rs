//! From registers and a copy of the stack to the addresses of the frames.

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{Error, FrameAddress, Unwinder};

use super::hostile::guarded;
use super::kept::{Place, Results, Words, word};
use super::modules::Modules;
use super::section::Section;
use super::spaces::Space;

/// Frames that a stack is followed for.
const FRAMES_MAX: usize = 1024;

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
    cache: CacheX86_64,
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
        (copy, cut): (&[u8], bool),
        frames: &mut Vec<u64>,
    ) -> End {
        let read = &mut self.read;
        read.clear();
        let mut read_stack = |addr: u64| {
            let offset = usize::try_from(addr.wrapping_sub(sp)).map_err(|_| ())?;
            let value = word(copy, offset).ok_or(())?;
            read.push((offset as u32, value));
            Ok(value)
        };
        frames.push(ip);
        if space.is_given_up() || space.compat {
            return End::Broken;
        }
        let (begun_ns, cache) = (thread_cpu_ns(), &mut self.cache);
        let innermost = UnwindRegsX86_64::new(ip, sp, bp);
        let copied = (copy.len() as u64, cut);
        let end = guarded("the unwind information of a process", || {
            let unwinder = space.unwinder(modules);
            follow(unwinder, cache, innermost, copied, &mut read_stack, frames)
        });
        space.unwound(end.is_some(), thread_cpu_ns().saturating_sub(begun_ns));
        end.unwrap_or(End::Broken)
    }
}

/// Follows the stack from its innermost frame, which `frames` has.
fn follow(
    unwinder: &UnwinderX86_64<Section>,
    cache: &mut CacheX86_64,
    mut regs: UnwindRegsX86_64,
    (copied, cut): (u64, bool),
    read_stack: &mut impl FnMut(u64) -> Result<u64, ()>,
    frames: &mut Vec<u64>,
) -> End {
    let (ip, sp) = (regs.ip(), regs.sp());
    let mut frame = FrameAddress::InstructionPointer(ip);
    while frames.len() < FRAMES_MAX {
        match unwinder.unwind_frame(frame, &mut regs, cache, read_stack) {
            Ok(Some(caller)) => match FrameAddress::from_return_address(caller) {
                Some(caller) => frame = caller,
                None => return End::Entry,
            },
            Ok(None) => return End::Entry,
            // By the ABI a frame pointer of 0 marks the outermost frame. The dynamic linker's first function says it
            // in no other way.
            Err(Error::FramepointerUnwindingMovedBackwards) if regs.bp() == 0 => return End::Entry,
            Err(Error::CouldNotReadStack(addr)) if cut && addr.wrapping_sub(sp).saturating_add(8) > copied => {
                return End::Cut;
            }
            Err(_) => return End::Broken,
        }
        frames.push(frame.address_for_lookup());
    }
    End::Cut
}

/// CPU time of this thread, ns.
fn thread_cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
