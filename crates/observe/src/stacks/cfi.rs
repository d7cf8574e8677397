//! Unwind information of a file: how the registers of a function's caller are found, for an address.
//!
//! Anybody may have written the file, so no look-up takes long: entries have a largest size, of which each instruction is
//! looked at once, and expressions are kept as bytes, which `unwind` follows for a limited number of steps.

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, CommonInformationEntry, DebugFrame, EhFrame, EhFrameHdr, Encoding, EndianSlice,
    FrameDescriptionEntry, LittleEndian, Register, RegisterRule, UnwindContext, UnwindContextStorage, UnwindExpression,
    UnwindSection, UnwindTableRow,
};

use super::patience::thread_cpu_ns;
use super::section::Section;

pub(super) type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Bytes of one entry; those of real functions have some hundred, the longest of a large browser some thousand.
const ENTRY_BYTES_MAX: usize = 16 << 10;
/// CPU time for sorting the entries of a file that brings no table, ns.
const SORT_NS: u64 = 50_000_000;
/// Entries between two looks at that time.
const ENTRIES_PER_LOOK: usize = 32;

/// Number of the registers that are followed: those that a function must leave as they are, the stack pointer, and the return
/// address.
pub(super) const SLOTS: usize = 8;
/// Places of three of them in arrays of all.
pub(super) const BP: usize = 1;
pub(super) const SP: usize = 2;
pub(super) const IP: usize = 7;

/// Which code it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Machine {
    X86_64,
    /// i386.
    X86,
}

impl Machine {
    /// The registers in their places, by the numbers of its ABI.
    const fn followed(self) -> [u16; SLOTS] {
        /// Nobody uses it.
        const NONE: u16 = u16::MAX;
        match self {
            Self::X86_64 => [3, 6, 7, 12, 13, 14, 15, 16],
            Self::X86 => [3, 5, 4, 6, 7, NONE, NONE, 8],
        }
    }

    /// The place of a register in arrays of all that are followed.
    pub(super) fn slot(self, register: Register) -> Option<usize> {
        self.followed().iter().position(|number| *number == register.0)
    }

    /// Bytes of an address.
    pub(super) const fn bytes(self) -> u8 {
        match self {
            Self::X86_64 => 8,
            Self::X86 => 4,
        }
    }
}

/// An expression of the file, by its place in the section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    offset: u32,
    bytes: u32,
}

impl Piece {
    fn of(expression: UnwindExpression<usize>) -> Option<Self> {
        Some(Self { offset: u32::try_from(expression.offset).ok()?, bytes: u32::try_from(expression.length).ok()? })
    }
}

/// The canonical frame address: by the ABI, the stack pointer in the caller, before the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cfa {
    /// A register, by its slot, and an offset.
    Register(u8, i32),
    Expression(Piece),
}

/// Where a register of the caller is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Saved {
    Same,
    Unknown,
    /// In memory, so far from the frame address.
    At(i32),
    /// It is the frame address and that.
    Is(i32),
    /// In another register, by its slot.
    In(u8),
    /// In memory, at the address that an expression gives.
    AtExpression(Piece),
    IsExpression(Piece),
}

/// How the caller's registers are found at one address of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub cfa: Cfa,
    pub saved: [Saved; SLOTS],
    /// The kernel made the frame to call a signal's handler, so the "caller" was interrupted, and did not call.
    pub signal: bool,
    pub encoding: Encoding,
}

/// Rules of one row, and rows that are remembered; more than any compiler uses.
struct Storage;

impl UnwindContextStorage<usize> for Storage {
    type Rules = [(Register, RegisterRule<usize>); 40];
    type Stack = [UnwindTableRow<usize, Self>; 8];
}

/// Memory for following one entry's instructions.
#[derive(Default)]
pub(super) struct Scratch(Box<UnwindContext<usize, Storage>>);

/// The sections of a file that unwinding needs, and where they lie in memory.
pub(super) struct Sections {
    pub machine: Machine,
    pub eh_frame: Option<Section>,
    pub eh_frame_hdr: Option<Section>,
    pub debug_frame: Option<Section>,
    pub bases: BaseAddresses,
}

/// How the entry of an address is found.
enum Finder {
    /// By the table that the linker made.
    Header(Section),
    /// First address and offset of each entry, in order.
    Sorted(Vec<(u64, u32)>),
}

/// The unwind information of one file.
pub(super) struct Table {
    machine: Machine,
    entries: Section,
    finder: Finder,
    is_debug_frame: bool,
    bases: BaseAddresses,
}

impl Table {
    /// None if there is none.
    pub(super) fn of(sections: Sections) -> Option<Self> {
        let Sections { machine, eh_frame, eh_frame_hdr, debug_frame, bases } = sections;
        let is_debug_frame = eh_frame.is_none();
        let entries = eh_frame.or(debug_frame)?;
        let finder = match eh_frame_hdr.filter(|_| !is_debug_frame) {
            Some(header) => Finder::Header(header),
            None if is_debug_frame => Finder::Sorted(sorted(&debug_frame_of(&entries, machine), &bases)),
            None => Finder::Sorted(sorted(&eh_frame_of(&entries, machine), &bases)),
        };
        Some(Self { machine, entries, finder, is_debug_frame, bases })
    }

    /// How the caller's registers are found at an address; none where no function lies, or none that can be followed.
    pub(super) fn row(&self, addr: u64, scratch: &mut Scratch) -> Option<Row> {
        let offset = self.entry(addr)?;
        let at = At { machine: self.machine, offset, addr };
        if self.is_debug_frame {
            row_of(&debug_frame_of(&self.entries, self.machine), &self.bases, at, scratch)
        } else {
            row_of(&eh_frame_of(&self.entries, self.machine), &self.bases, at, scratch)
        }
    }

    /// The bytes of an expression.
    pub(super) fn expression(&self, piece: Piece) -> Option<Bytes<'_>> {
        let from = piece.offset as usize;
        let bytes = self.entries.get(from..from.checked_add(piece.bytes as usize)?)?;
        Some(EndianSlice::new(bytes, LittleEndian))
    }

    /// The offset of the entry that an address may belong to.
    fn entry(&self, addr: u64) -> Option<usize> {
        match &self.finder {
            Finder::Header(header) => {
                let header = EhFrameHdr::new(header, LittleEndian).parse(&self.bases, self.machine.bytes()).ok()?;
                let table = header.table()?;
                let at = table.lookup(addr, &self.bases).ok()?.direct().ok()?;
                // What lies before the section has no offset in it; gimli's own function would overflow there.
                usize::try_from(at.checked_sub(header.eh_frame_ptr().direct().ok()?)?).ok()
            }
            Finder::Sorted(entries) => {
                let behind = entries.partition_point(|(start, _)| *start <= addr);
                Some(entries.get(behind.checked_sub(1)?)?.1 as usize)
            }
        }
    }
}

fn eh_frame_of(bytes: &[u8], machine: Machine) -> EhFrame<Bytes<'_>> {
    let mut section = EhFrame::new(bytes, LittleEndian);
    section.set_address_size(machine.bytes());
    section
}

fn debug_frame_of(bytes: &[u8], machine: Machine) -> DebugFrame<Bytes<'_>> {
    let mut section = DebugFrame::new(bytes, LittleEndian);
    section.set_address_size(machine.bytes());
    section
}

/// The entries of a section, as far as they can be read, and in the time that there is.
fn sorted<'a, S: UnwindSection<Bytes<'a>>>(section: &S, bases: &BaseAddresses) -> Vec<(u64, u32)> {
    let until_ns = thread_cpu_ns().saturating_add(SORT_NS);
    let (mut found, mut looked) = (Vec::new(), 0_usize);
    let mut common: Option<CommonInformationEntry<Bytes<'a>>> = None;
    let mut entries = section.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        looked += 1;
        if looked % ENTRIES_PER_LOOK == 0 && thread_cpu_ns() > until_ns {
            break;
        }
        let CieOrFde::Fde(partial) = entry else { continue };
        let parsed = partial.parse(|section, bases, offset| match &common {
            Some(known) if known.offset() == gimli::UnwindOffset::into(offset) => Ok(known.clone()),
            _ => section.cie_from_offset(bases, offset),
        });
        let Ok(entry) = parsed else { continue };
        if let Ok(offset) = u32::try_from(entry.offset()) {
            found.push((entry.initial_address(), offset));
        }
        common = Some(entry.cie().clone());
    }
    found.sort_unstable();
    found
}

/// An address, and the offset of the entry that it may belong to.
struct At {
    machine: Machine,
    offset: usize,
    addr: u64,
}

fn row_of<'a, S: UnwindSection<Bytes<'a>>>(
    section: &S,
    bases: &BaseAddresses,
    At { machine, offset, addr }: At,
    Scratch(context): &mut Scratch,
) -> Option<Row> {
    let entry = section.fde_from_offset(bases, S::Offset::from(offset), S::cie_from_offset).ok()?;
    let common = entry.cie();
    let is_short = entry.entry_len() <= ENTRY_BYTES_MAX && common.entry_len() <= ENTRY_BYTES_MAX;
    if !is_short || !entry.contains(addr) || machine.slot(common.return_address_register()) != Some(IP) {
        return None;
    }
    let (encoding, signal) = (common.encoding(), common.is_signal_trampoline());
    let rules = rules_at(&entry, section, bases, addr, context)?;
    let cfa = match rules.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            Cfa::Register(machine.slot(*register)? as u8, i32::try_from(*offset).ok()?)
        }
        CfaRule::Expression(expression) => Cfa::Expression(Piece::of(*expression)?),
    };
    let mut saved = [Saved::Same; SLOTS];
    for (saved, number) in saved.iter_mut().zip(machine.followed()) {
        *saved = saved_by(rules.register(Register(number)).as_ref(), machine);
    }
    // The frame address is the stack pointer of the caller, unless something else is said.
    if saved[SP] == Saved::Same {
        saved[SP] = Saved::Is(0);
    }
    // A function without a caller says so by an address that cannot be found.
    let has_caller = !matches!(rules.register(common.return_address_register()), None | Some(RegisterRule::Undefined));
    if !has_caller {
        saved[IP] = Saved::Unknown;
    }
    Some(Row { cfa, saved, signal, encoding })
}

fn rules_at<'ctx, 'a, S: UnwindSection<Bytes<'a>>>(
    entry: &FrameDescriptionEntry<Bytes<'a>>,
    section: &S,
    bases: &BaseAddresses,
    addr: u64,
    context: &'ctx mut UnwindContext<usize, Storage>,
) -> Option<&'ctx UnwindTableRow<usize, Storage>> {
    entry.unwind_info_for_address(section, bases, context, addr).ok()
}

fn saved_by(rule: Option<&RegisterRule<usize>>, machine: Machine) -> Saved {
    let by = |offset: i64, saved: fn(i32) -> Saved| i32::try_from(offset).map_or(Saved::Unknown, saved);
    let of = |piece, saved: fn(Piece) -> Saved| Piece::of(piece).map_or(Saved::Unknown, saved);
    match rule {
        // What is undefined is mostly not used by then, and left as it was.
        None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => Saved::Same,
        Some(RegisterRule::Offset(offset)) => by(*offset, Saved::At),
        Some(RegisterRule::ValOffset(offset)) => by(*offset, Saved::Is),
        Some(RegisterRule::Register(register)) => {
            machine.slot(*register).map_or(Saved::Unknown, |slot| Saved::In(slot as u8))
        }
        Some(RegisterRule::Expression(piece)) => of(*piece, Saved::AtExpression),
        Some(RegisterRule::ValExpression(piece)) => of(*piece, Saved::IsExpression),
        Some(_) => Saved::Unknown,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A CIE and the FDE of a function of 4 KiB at 0x1000, with these instructions.
    pub(in crate::stacks) fn eh_frame(augmentation: &[u8], instructions: &[u8]) -> Vec<u8> {
        let entry = |id: u32, body: &[u8]| {
            let mut body = [&id.to_le_bytes(), body].concat();
            body.resize(body.len().next_multiple_of(8) + 4, 0);
            [&(body.len() as u32).to_le_bytes(), body.as_slice()].concat()
        };
        // Version 1, factors 1 and -8, return address in register 16; data of the augmentation has no bytes.
        let data: &[u8] = if augmentation.is_empty() { &[] } else { &[0] };
        let common = entry(0, &[&[1], augmentation, &[0, 1, 0x78, 16], data].concat());
        let body = [&0x1000_u64.to_le_bytes()[..], &0x1000_u64.to_le_bytes(), data, instructions].concat();
        let function = entry(common.len() as u32 + 4, &body);
        [common, function, vec![0; 4]].concat()
    }

    /// The unwind information of such a file.
    pub(in crate::stacks) fn table(eh_frame: Vec<u8>, header: Option<Vec<u8>>) -> Table {
        let section = |bytes: Vec<u8>| Section::Copied(bytes.into());
        let bases = BaseAddresses::default().set_eh_frame(0x8000).set_eh_frame_hdr(0x9000);
        let (eh_frame, eh_frame_hdr) = (Some(section(eh_frame)), header.map(section));
        let sections = Sections { machine: Machine::X86_64, eh_frame, eh_frame_hdr, debug_frame: None, bases };
        Table::of(sections).expect("there is a section")
    }

    /// The frame is 16 bytes, the return address right above it.
    const PLAIN: [u8; 5] = [0x0c, 7, 16, 0x90, 1];

    #[test]
    fn a_row_says_where_the_caller_is() {
        let mut scratch = Scratch::default();
        let plain = table(eh_frame(b"", &PLAIN), None);
        let row = plain.row(0x1010, &mut scratch).expect("a function");
        assert_eq!((row.cfa, row.saved[IP], row.saved[SP]), (Cfa::Register(SP as u8, 16), Saved::At(-8), Saved::Is(0)));
        assert!(!row.signal && row.saved[BP] == Saved::Same);
        assert_eq!(plain.row(0x2000, &mut scratch), None, "behind the function");
        let interrupted = table(eh_frame(b"zS", &PLAIN), None).row(0x1010, &mut scratch).expect("a function");
        assert!(interrupted.signal);
        let outermost = table(eh_frame(b"", &[0x0c, 7, 8, 0x07, 16]), None).row(0x1010, &mut scratch);
        assert_eq!(outermost.expect("a function").saved[IP], Saved::Unknown);
    }

    #[test]
    fn an_entry_that_is_very_long_is_not_followed() {
        let mut scratch = Scratch::default();
        let long = [&PLAIN[..], &vec![0; ENTRY_BYTES_MAX]].concat();
        assert_eq!(table(eh_frame(b"", &long), None).row(0x1010, &mut scratch), None);
        // Each remembers the row; there is room for some.
        let deep = [&PLAIN[..], &[0x0a; 1000]].concat();
        assert_eq!(table(eh_frame(b"", &deep), None).row(0x1010, &mut scratch), None);
    }

    #[test]
    fn a_table_may_lead_anywhere_and_does_no_harm() {
        let section = eh_frame(b"", &PLAIN);
        let function = 4 + u32::from_le_bytes([section[0], section[1], section[2], section[3]]);
        let header = |at: u32| {
            // Version 1; the section relative to here, a count of 4 bytes, rows relative to the header.
            let mut header = vec![1, 0x1b, 0x03, 0x3b];
            header.extend((0x8000_u32.wrapping_sub(0x9004)).to_le_bytes());
            header.extend(1_u32.to_le_bytes());
            header.extend(0x1000_u32.wrapping_sub(0x9000).to_le_bytes());
            header.extend(0x8000_u32.wrapping_add(at).wrapping_sub(0x9000).to_le_bytes());
            header
        };
        let mut scratch = Scratch::default();
        let mut row = |at| table(section.clone(), Some(header(at))).row(0x1010, &mut scratch);
        assert!(row(function).is_some());
        for at in (0..section.len() as u32 + 16).chain([u32::MAX - 8, 1 << 31]) {
            // Into the middle of an entry, behind the section, before it.
            assert!(at == function || row(at).is_none_or(|row| !row.signal), "{at}");
        }
    }
}
