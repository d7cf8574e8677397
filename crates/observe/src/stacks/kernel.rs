//! Where the kernel's code lies: needed to say in which part of it an address is, before any symbol is looked up.

use std::ops::Range;
use std::path::Path;

use super::frame::Frame;
use super::kallsyms;
use pagelab_vocab::units::hexadecimal;

/// The running kernel.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    /// Address of its first byte of code; none where addresses are hidden (kptr_restrict).
    text: Option<u64>,
    build_id: Option<String>,
    /// Modules: first address, end, name in brackets, build id.
    modules: Vec<(u64, u64, String, Option<String>)>,
    /// Where `__schedule` lies, if that was asked for.
    schedule: Range<u64>,
}

/// No kernel image is larger; what lies further from its beginning is a module, or code made at run time.
const IMAGE_BYTES_MAX: u64 = 1 << 30;
/// Frames between a tracepoint and a program that is attached to it, and one more.
const OWN_FRAMES_MAX: usize = 8;

impl Kernel {
    /// Reads where the kernel under `root` (`/` but in tests) is.
    pub(super) fn read(root: &Path) -> Self {
        let text = kallsyms::text(root);
        let notes = std::fs::read(root.join("sys/kernel/notes")).unwrap_or_default();
        let list = std::fs::read_to_string(root.join("proc/modules")).unwrap_or_default();
        let modules = list.lines().filter_map(module).map(|(start, end, name)| {
            let notes = std::fs::read(root.join(format!("sys/module/{name}/notes/.note.gnu.build-id")));
            (start, end, format!("[{name}]"), notes.ok().and_then(|notes| build_id(&notes)))
        });
        Self { text, build_id: build_id(&notes), modules: modules.collect(), schedule: 0..0 }
    }

    /// Finds the function in which tasks leave the CPU; it takes some ten milliseconds.
    pub(super) fn find_schedule(&mut self, root: &Path) {
        self.schedule = kallsyms::extent(root, "__schedule").unwrap_or_default();
    }

    /// How many innermost frames of a task that leaves the CPU are the recorder's own probe. 0 if that is not known.
    pub(super) fn own_frames(&self, addrs: &[u64]) -> usize {
        addrs.iter().take(OWN_FRAMES_MAX).position(|addr| self.schedule.contains(addr)).unwrap_or(0)
    }

    /// The frame of an address, without its symbol.
    pub(super) fn frame(&self, addr: u64) -> Frame {
        let frame = Frame { kernel: true, ..Frame::default() };
        let module = self.modules.iter().find(|(start, end, ..)| (*start..*end).contains(&addr));
        if let Some((start, _, name, build_id)) = module {
            let offset = Some(addr - start);
            return Frame {
                module: Some(name.clone().into()),
                build_id: build_id.clone(),
                module_offset: offset,
                ..frame
            };
        }
        let offset = self.text.and_then(|text| addr.checked_sub(text)).filter(|offset| *offset < IMAGE_BYTES_MAX);
        let build_id = offset.and(self.build_id.clone());
        Frame { module: Some(b"[kernel]".to_vec()), build_id, module_offset: offset, ..frame }
    }
}

/// First address, end and name in a line of `/proc/modules`; none where addresses are hidden.
fn module(line: &str) -> Option<(u64, u64, &str)> {
    let mut words = line.split_whitespace();
    let (name, bytes) = (words.next()?, words.next()?.parse::<u64>().ok()?);
    let start = words.find_map(|word| word.strip_prefix("0x"))?;
    let start = u64::from_str_radix(start, 16).ok().filter(|start| *start != 0)?;
    Some((start, start.checked_add(bytes)?, name))
}

/// The build id in a file of ELF notes.
fn build_id(mut notes: &[u8]) -> Option<String> {
    const GNU_BUILD_ID: u32 = 3;
    loop {
        let number = |at: usize| Some(u32::from_le_bytes(notes.get(at..at + 4)?.try_into().ok()?));
        let (name_bytes, bytes, kind) = (number(0)? as usize, number(4)? as usize, number(8)?);
        let begin = 12 + name_bytes.next_multiple_of(4);
        let content = notes.get(begin..begin.checked_add(bytes)?)?;
        if kind == GNU_BUILD_ID && notes.get(12..12 + name_bytes)? == b"GNU\0" {
            return Some(hexadecimal(content));
        }
        notes = notes.get(begin + bytes.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_by_where_they_lie() {
        let kernel = Kernel {
            text: Some(0xffff_ffff_8100_0000),
            build_id: Some("ab".into()),
            modules: vec![(0xffff_ffff_c000_0000, 0xffff_ffff_c000_1000, "[xfs]".into(), None)],
            schedule: 0..0,
        };
        let told = |addr| {
            let frame = kernel.frame(addr);
            (String::from_utf8(frame.module.expect("always")).expect("text"), frame.module_offset, frame.build_id)
        };
        assert_eq!(told(0xffff_ffff_8100_0010), ("[kernel]".into(), Some(0x10), Some("ab".into())));
        assert_eq!(told(0xffff_ffff_c000_0020), ("[xfs]".into(), Some(0x20), None));
        assert_eq!(told(0x10), ("[kernel]".into(), None, None));
    }

    #[test]
    fn what_looks_at_a_task_that_leaves_the_cpu_is_not_of_its_stack() {
        let schedule = 0xffff_ffff_821f_8540..0xffff_ffff_821f_94a0;
        let kernel = Kernel { schedule, ..Kernel::default() };
        assert_eq!(kernel.own_frames(&[1, 2, 0xffff_ffff_821f_8600, 0xffff_ffff_821f_9500]), 2);
        assert_eq!(kernel.own_frames(&[1, 2, 3]), 0);
    }

    #[test]
    fn kernel_text_is_read() {
        assert_eq!(
            module("xfs 1540096 1 - Live 0xffffffffc0a00000"),
            Some((0xffff_ffff_c0a0_0000, 0xffff_ffff_c0b7_8000, "xfs"))
        );
        assert_eq!(module("xfs 1540096 1 - Live 0x0000000000000000"), None);
        let notes = [&[4, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0][..], b"GNU\0", &[0xab, 0xcd, 0, 0]].concat();
        assert_eq!(build_id(&notes), Some("abcd".into()));
        assert_eq!(build_id(&notes[..14]), None);
    }
}
