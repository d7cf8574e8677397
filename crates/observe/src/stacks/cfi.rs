//! Whether following a file's unwind information ends. Expressions in it may jump back, and what evaluates them counts no
//! steps; an entry may be as long as the section. Compilers write neither, so a file that has such entries is not
//! unwound by. Entries are found in two ways, one after the other and through a table, which must lead to the same.

use std::collections::HashSet;

use gimli::{
    BaseAddresses, CallFrameInstruction, CallFrameInstructionIter, CieOrFde, DebugFrame, EhFrame, EhFrameHdr, Encoding,
    EndianSlice, LittleEndian, Operation, UnwindSection,
};

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Bytes of one entry; those of real functions have some hundred.
const ENTRY_BYTES_MAX: usize = 64 << 10;
const ADDRESS_BYTES: u8 = 8;

/// Whether `.eh_frame` may be used, through the table of `.eh_frame_hdr` if that is not empty.
pub(super) fn is_eh_frame_usable(eh_frame: &[u8], table: &[u8], bases: &BaseAddresses) -> bool {
    let section = EhFrame::new(eh_frame, LittleEndian);
    let Some(entries) = usable_entries(&section, bases) else { return false };
    table.is_empty() || leads_to(&entries, table, bases).is_some()
}

/// Whether `.debug_frame` may be used.
pub(super) fn is_debug_frame_usable(debug_frame: &[u8]) -> bool {
    usable_entries(&DebugFrame::new(debug_frame, LittleEndian), &BaseAddresses::default()).is_some()
}

/// The offsets of all functions' entries, if every entry is as compilers write them.
fn usable_entries<'a, S>(section: &S, bases: &BaseAddresses) -> Option<HashSet<usize>>
where
    S: UnwindSection<Bytes<'a>>,
{
    let (mut found, mut common) = (HashSet::new(), HashSet::new());
    let mut entries = section.entries(bases);
    while let Some(entry) = entries.next().ok()? {
        let CieOrFde::Fde(partial) = entry else { continue };
        if partial.entry_len() > ENTRY_BYTES_MAX {
            return None;
        }
        let function = partial.parse(gimli::UnwindSection::cie_from_offset).ok()?;
        let cie = function.cie();
        if common.insert(cie.offset()) {
            if cie.entry_len() > ENTRY_BYTES_MAX {
                return None;
            }
            is_straight(cie.instructions(section, bases), section, cie.encoding())?;
        }
        is_straight(function.instructions(section, bases), section, cie.encoding())?;
        found.insert(function.offset());
    }
    Some(found)
}

/// None if an expression among the instructions jumps.
fn is_straight<'a, S>(
    mut instructions: CallFrameInstructionIter<'_, Bytes<'a>>,
    section: &S,
    encoding: Encoding,
) -> Option<()>
where
    S: UnwindSection<Bytes<'a>>,
{
    while let Some(instruction) = instructions.next().ok()? {
        let (CallFrameInstruction::DefCfaExpression { expression }
        | CallFrameInstruction::Expression { expression, .. }
        | CallFrameInstruction::ValExpression { expression, .. }) = instruction
        else {
            continue;
        };
        let mut operations = expression.get(section).ok()?.operations(encoding);
        while let Some(operation) = operations.next().ok()? {
            if matches!(operation, Operation::Skip { .. } | Operation::Bra { .. }) {
                return None;
            }
        }
    }
    Some(())
}

/// None if the table has an entry that is not at one of these offsets.
fn leads_to(entries: &HashSet<usize>, table: &[u8], bases: &BaseAddresses) -> Option<()> {
    let header = EhFrameHdr::new(table, LittleEndian).parse(bases, ADDRESS_BYTES).ok()?;
    // Without a table nothing is looked up through it.
    let Some(table) = header.table() else { return Some(()) };
    let section = header.eh_frame_ptr().direct().ok()?;
    let mut rows = table.iter(bases);
    while let Some((_, entry)) = rows.next().ok()? {
        // What lies before the section has no offset in it; gimli's own function would overflow there.
        let offset = entry.direct().ok()?.checked_sub(section)?;
        if !usize::try_from(offset).is_ok_and(|offset| entries.contains(&offset)) {
            return None;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CIE and the FDE of a function whose frame is computed by an expression of these operations.
    fn eh_frame(operations: &[u8]) -> Vec<u8> {
        let entry = |id: u32, body: &[u8]| {
            let mut body = [&id.to_le_bytes(), body].concat();
            body.resize(body.len().next_multiple_of(8) + 4, 0);
            [&(body.len() as u32).to_le_bytes(), body.as_slice()].concat()
        };
        // Version 1, no augmentation, factors 1 and -8, return address in register 16.
        let common = entry(0, &[1, 0, 1, 0x78, 16]);
        let mut body = vec![0; 16];
        body.extend([0x0f, operations.len() as u8]);
        body.extend(operations);
        let function = entry(common.len() as u32 + 4, &body);
        [common, function, vec![0; 4]].concat()
    }

    #[test]
    fn an_expression_that_jumps_back_is_refused() {
        let bases = BaseAddresses::default().set_eh_frame(0);
        // DW_OP_breg7 8 is what the linker writes for its table of calls, and it ends.
        assert!(is_eh_frame_usable(&eh_frame(&[0x77, 8]), &[], &bases));
        // DW_OP_skip -3 goes on for ever.
        assert!(!is_eh_frame_usable(&eh_frame(&[0x2f, 0xfd, 0xff]), &[], &bases));
        assert!(!is_eh_frame_usable(&eh_frame(&[0x30, 0x31, 0x28, 0xfa, 0xff]), &[], &bases));
    }

    #[test]
    fn a_table_that_leads_into_the_middle_of_an_entry_is_refused() {
        let bases = BaseAddresses::default().set_eh_frame(0x1000).set_eh_frame_hdr(0x2000);
        let section = eh_frame(&[0x77, 8]);
        let function = 4 + u32::from_le_bytes([section[0], section[1], section[2], section[3]]);
        let table = |at: u32| {
            // Version 1; the section relative to here, a count of 4 bytes, rows relative to the header.
            let mut table = vec![1, 0x1b, 0x03, 0x3b];
            table.extend((0x1000_u32.wrapping_sub(0x2004)).to_le_bytes());
            table.extend(1_u32.to_le_bytes());
            table.extend(0_u32.to_le_bytes());
            table.extend((0x1000 + at).wrapping_sub(0x2000).to_le_bytes());
            table
        };
        assert!(is_eh_frame_usable(&section, &table(function), &bases));
        assert!(!is_eh_frame_usable(&section, &table(function + 8), &bases));
    }
}
