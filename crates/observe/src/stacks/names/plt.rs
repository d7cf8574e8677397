//! Names of entries of procedure linkage tables: `name@plt`.
//!
//! They have no symbols. An entry jumps to where an entry of the global offset table leads, and the relocation of that entry has the
//! symbol: so it is found whatever the table's layout (`.plt`, `.plt.sec` of CET, `.plt.got` of functions that are bound at once) is.

use std::collections::HashMap;
use std::ops::Range;

use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, Rel, Rela, SectionHeader, SectionTable};

use super::data::Data;
use super::symtab::Functions;

/// Bytes of one entry where the section does not say it.
const ENTRY_BYTES: u64 = 16;
/// Entries of these sizes are known.
const ENTRY_SIZES: [u64; 4] = [8, 16, 24, 32];
/// Relocations of entries that are kept of one file.
const LINKED_MAX: usize = 1 << 20;
/// The relocation of an entry of the global offset table.
const JUMP_SLOTS: [u32; 2] = [elf::R_X86_64_JUMP_SLOT.0, elf::R_386_JMP_SLOT.0];
const DATA_SLOTS: [u32; 2] = [elf::R_X86_64_GLOB_DAT.0, elf::R_386_GLOB_DAT.0];
const COMPUTED_SLOTS: [u32; 2] = [elf::R_X86_64_IRELATIVE.0, elf::R_386_IRELATIVE.0];

/// Names the entries that addresses which are asked for lie in.
pub(super) fn scan<'d, Elf: FileHeader<Endian = Endianness>>(
    data: Data<'d>,
    header: &Elf,
    endian: Endianness,
    sections: &SectionTable<'d, Elf, Data<'d>>,
    functions: &mut Functions,
) -> object::Result<()> {
    let is_64 = match header.e_machine(endian) {
        elf::EM_X86_64 => true,
        elf::EM_386 => false,
        _ => return Ok(()),
    };
    let mut linked = None;
    for section in sections.iter() {
        let name = sections.section_name(endian, section).unwrap_or_default();
        if !section.sh_flags(endian).contains(elf::SHF_EXECINSTR) || !(name.starts_with(b".plt") || name == b".iplt") {
            continue;
        }
        let (start, size): (u64, u64) = (section.sh_addr(endian).into(), section.sh_size(endian).into());
        let wanted: Vec<(usize, u64)> = functions.within(&(start..start.saturating_add(size))).collect();
        if wanted.is_empty() {
            continue;
        }
        let linked = match &mut linked {
            Some(linked) => linked,
            None => linked.insert(Linked::of(data, endian, sections, is_64)?),
        };
        // Linkers of static programs leave the size of an entry out; it is as far apart as the section is.
        let sizes = [section.sh_entsize(endian).into(), section.sh_addralign(endian).into()];
        let entry = sizes.into_iter().find(|size| ENTRY_SIZES.contains(size)).unwrap_or(ENTRY_BYTES);
        // A file of debug information has the section without its bytes.
        let code = section.data(endian, data)?;
        for (at, addr) in wanted {
            let first = (addr - start) / entry * entry;
            let Some(bytes) = code.get(first as usize..).map(|rest| &rest[..rest.len().min(entry as usize)]) else {
                continue;
            };
            match linked.name(bytes, start + first) {
                Some(name) => functions.link(at, [name, b"@plt"].concat()),
                // It calls the linker for all of them.
                None if first == 0 && name == b".plt" => functions.link(at, name.to_vec()),
                None => {}
            }
        }
    }
    Ok(())
}

/// What the entries of the global offset table lead to.
struct Linked {
    is_64: bool,
    /// By the address of the entry.
    names: HashMap<u64, Vec<u8>>,
    /// In the order of the relocations, which entries that are bound late push the number of.
    late: Vec<Vec<u8>>,
    /// What 32-bit code that may lie anywhere counts from.
    base: u64,
}

impl Linked {
    fn of<'d, Elf: FileHeader<Endian = Endianness>>(
        data: Data<'d>,
        endian: Endianness,
        sections: &SectionTable<'d, Elf, Data<'d>>,
        is_64: bool,
    ) -> object::Result<Self> {
        let at = |name: &[u8]| sections.section_by_name(endian, name).map(|(_, found)| found.sh_addr(endian).into());
        let base = at(b".got.plt").or_else(|| at(b".got")).unwrap_or(0);
        let mut linked = Self { is_64, names: HashMap::new(), late: Vec::new(), base };
        for section in sections.iter() {
            if !section.sh_flags(endian).contains(elf::SHF_ALLOC) {
                continue;
            }
            let table = sections.symbol_table_by_index(endian, data, section.link(endian));
            let name_of = |symbol, kind: u32, addend: &dyn Fn() -> u64| -> Option<Vec<u8>> {
                if COMPUTED_SLOTS.contains(&kind) {
                    return Some(format!("*ABS*+{:#x}", addend()).into_bytes());
                }
                if !JUMP_SLOTS.contains(&kind) && !DATA_SLOTS.contains(&kind) {
                    return None;
                }
                let table = table.as_ref().ok()?;
                let name = table.symbol_name(endian, table.symbol(symbol?).ok()?).ok()?;
                Some(name.to_vec()).filter(|name| !name.is_empty())
            };
            if let Some((entries, _)) = section.rela(endian, data)? {
                for entry in entries {
                    let kind = entry.r_type(endian, false).0;
                    let addend: i64 = entry.r_addend(endian).into();
                    let name = name_of(entry.symbol(endian, false), kind, &|| addend as u64);
                    linked.push(entry.r_offset(endian).into(), kind, name);
                }
            }
            if let Some((entries, _)) = section.rel(endian, data)? {
                for entry in entries {
                    let (kind, slot) = (entry.r_type(endian).0, entry.r_offset(endian).into());
                    let addend = || word_at(data, endian, sections, slot).map_or(0, u64::from);
                    let name = name_of(entry.symbol(endian), kind, &addend);
                    linked.push(slot, kind, name);
                }
            }
        }
        Ok(linked)
    }

    fn push(&mut self, slot: u64, kind: u32, name: Option<Vec<u8>>) {
        if self.names.len() >= LINKED_MAX || self.late.len() >= LINKED_MAX {
            return;
        }
        // The linker counts what is computed among them.
        if JUMP_SLOTS.contains(&kind) || COMPUTED_SLOTS.contains(&kind) {
            self.late.push(name.clone().unwrap_or_default());
        }
        if let Some(name) = name {
            self.names.insert(slot, name);
        }
    }

    /// The symbol that an entry at `addr` leads to.
    fn name(&self, code: &[u8], addr: u64) -> Option<&[u8]> {
        let number = |at: usize| Some(i32::from_le_bytes(code.get(at..at + 4)?.try_into().ok()?));
        for (at, start) in code.windows(2).enumerate() {
            let slot = match start {
                // jmp *slot(%rip), or jmp *slot
                [0xff, 0x25] if self.is_64 => {
                    addr.wrapping_add(at as u64 + 6).wrapping_add_signed(number(at + 2)?.into())
                }
                [0xff, 0x25] => u64::from(number(at + 2)? as u32),
                // jmp *slot(%ebx)
                [0xff, 0xa3] if !self.is_64 => u64::from((self.base as u32).wrapping_add_signed(number(at + 2)?)),
                // mov slot(%rip),%r11, of code that guards its jumps
                [0x4c, 0x8b] if self.is_64 && code.get(at + 2) == Some(&0x1d) => {
                    addr.wrapping_add(at as u64 + 7).wrapping_add_signed(number(at + 3)?.into())
                }
                _ => continue,
            };
            if let Some(name) = self.names.get(&slot) {
                return Some(name);
            }
            break;
        }
        self.late_name(code)
    }

    /// The symbol of an entry that pushes its number and asks the linker.
    fn late_name(&self, code: &[u8]) -> Option<&[u8]> {
        const MARK_OF_CET: [[u8; 4]; 2] = [[0xf3, 0x0f, 0x1e, 0xfa], [0xf3, 0x0f, 0x1e, 0xfb]];
        let marked = code.get(..4).is_some_and(|mark| MARK_OF_CET.iter().any(|known| known == mark));
        let push = if marked { code.get(4..9)? } else { code.get(..5)? };
        let [0x68, number @ ..] = push else { return None };
        let number = u32::from_le_bytes(number.try_into().ok()?) as usize;
        // 32-bit code pushes the offset of the relocation, of 8 bytes.
        let number = if self.is_64 { number } else { number / 8 };
        self.late.get(number).map(Vec::as_slice).filter(|name| !name.is_empty())
    }
}

/// The 4 bytes that a file has at an address.
fn word_at<'d, Elf: FileHeader<Endian = Endianness>>(
    data: Data<'d>,
    endian: Endianness,
    sections: &SectionTable<'d, Elf, Data<'d>>,
    addr: u64,
) -> Option<u32> {
    sections.iter().find_map(|section| {
        let start: u64 = section.sh_addr(endian).into();
        let size: u64 = section.sh_size(endian).into();
        let range: Range<u64> = start..start.checked_add(size)?;
        if start == 0 || !range.contains(&addr) {
            return None;
        }
        let at = (addr - start) as usize;
        let bytes = section.data(endian, data).ok()?.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linked(is_64: bool) -> Linked {
        let names = [(0x4018, b"one".to_vec()), (0x4020, b"two".to_vec())];
        Linked { is_64, names: names.into(), late: vec![b"one".to_vec(), b"two".to_vec()], base: 0x4000 }
    }

    #[test]
    fn an_entry_has_the_name_of_what_its_slot_is_filled_with() {
        let of = |code: &[u8]| linked(true).name(code, 0x1020).map(|name| String::from_utf8_lossy(name).into_owned());
        // jmp *0x2ff2(%rip); push $0; jmp
        assert_eq!(of(&[0xff, 0x25, 0xf2, 0x2f, 0, 0, 0x68, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0]).as_deref(), Some("one"));
        // endbr64; bnd jmp *0x2ff5(%rip)
        assert_eq!(of(&[0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0xf5, 0x2f, 0, 0]).as_deref(), Some("two"));
        // endbr64; push $1; bnd jmp
        assert_eq!(
            of(&[0xf3, 0x0f, 0x1e, 0xfa, 0x68, 1, 0, 0, 0, 0xf2, 0xe9, 0, 0, 0, 0, 0x90]).as_deref(),
            Some("two")
        );
        // push of the linker's own word, and a jump through another that no relocation fills.
        assert_eq!(of(&[0xff, 0x35, 0xe2, 0x2f, 0, 0, 0xff, 0x25, 0xe4, 0x2f, 0, 0, 0x0f, 0x1f, 0x40, 0]), None);
        assert_eq!(of(&[0xff, 0x25]), None);
        assert_eq!(of(&[0x68, 9, 0, 0, 0]), None);
    }

    #[test]
    fn entries_of_32_bits_count_from_the_table_or_name_the_slot() {
        let of = |code: &[u8]| linked(false).name(code, 0x1020).map(|name| String::from_utf8_lossy(name).into_owned());
        assert_eq!(of(&[0xff, 0xa3, 0x18, 0, 0, 0, 0x66, 0x90]).as_deref(), Some("one"));
        assert_eq!(of(&[0xff, 0x25, 0x20, 0x40, 0, 0, 0x68, 8, 0, 0, 0]).as_deref(), Some("two"));
        assert_eq!(of(&[0xf3, 0x0f, 0x1e, 0xfb, 0x68, 8, 0, 0, 0, 0xe9]).as_deref(), Some("two"));
    }
}
