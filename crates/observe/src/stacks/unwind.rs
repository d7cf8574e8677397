//! From registers and a copy of the stack to the addresses of the frames.
//!
//! Most samples of a busy program meet it at a place where it was met before. So what unwinding one sample read from the
//! stack is kept with its result: a sample with the same registers whose stack holds the same values at the same places
//! has the same frames, which is seen at a fraction of the cost.

use std::collections::HashMap;
use std::sync::Arc;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{Error, FrameAddress, Unwinder};

use super::hostile::guarded;
use super::modules::Modules;
use super::spaces::Space;

/// Frames that a stack is followed for.
const FRAMES_MAX: usize = 1024;
/// Results that are kept; all are forgotten when there are more.
const KEPT_MAX: usize = 1 << 14;

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

/// The same place of the same program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub mm_id: u32,
    /// Of the address space.
    pub generation: u32,
    pub regs: [u64; 3],
}

/// A result, and what it was made from.
#[derive(Debug, Clone)]
struct Kept {
    /// Offsets in the copy and the 8 bytes that were there.
    read: Vec<(u32, u64)>,
    stack_id: u64,
}

/// Unwinds; keeps rules and results between samples.
#[derive(Default)]
pub(super) struct Unwinding {
    cache: CacheX86_64,
    kept: HashMap<Place, Kept>,
    read: Vec<(u32, u64)>,
    /// Samples whose result was kept from an earlier one.
    pub hits: u64,
}

fn word(copy: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(copy.get(offset..offset.checked_add(8)?)?.try_into().ok()?))
}

impl Unwinding {
    /// The stack found at this place before, if the stack is still as it was then. It had ended at the thread's entry.
    pub(super) fn kept(&mut self, place: &Place, copy: &[u8]) -> Option<u64> {
        let kept = self.kept.get(place)?;
        let same = kept.read.iter().all(|(offset, value)| word(copy, *offset as usize) == Some(*value));
        if !same {
            return None;
        }
        self.hits += 1;
        self.read.clone_from(&kept.read);
        Some(kept.stack_id)
    }

    /// The words that the last stack was made from: offsets in the copy and the 8 bytes there.
    pub(super) fn read(&self) -> &[(u32, u64)] {
        &self.read
    }

    /// Keeps the result of the last [`Unwinding::unwind`].
    pub(super) fn keep(&mut self, place: Place, stack_id: u64) {
        if self.kept.len() >= KEPT_MAX {
            self.kept.clear();
        }
        self.kept.insert(place, Kept { read: self.read.clone(), stack_id });
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
    unwinder: &UnwinderX86_64<Arc<[u8]>>,
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
