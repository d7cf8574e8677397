//! Stacks by their ids as lists of functions, and functions by their place in a module.

use std::collections::{HashMap, HashSet};

use pagelab_recording::Recording;
use pagelab_recording::tables::{FramesRow, StacksRow};

use crate::error::Result;
use crate::read;

/// Functions of the stacks that were asked for.
#[derive(Debug, Default)]
pub struct Stacks {
    frames_of: HashMap<u64, Vec<u64>>,
    names: HashMap<u64, String>,
    /// Function and file name of the module, where they are known, of functions outside of the kernel.
    of_modules: HashMap<u64, (Option<String>, Option<String>)>,
}

impl Stacks {
    /// Reads the stacks of these ids.
    pub fn load(recording: &Recording, wanted: &HashSet<u64>, notes: &mut Vec<String>) -> Result<Self> {
        let mut out = Self::default();
        if wanted.is_empty() {
            return Ok(out);
        }
        read::each::<StacksRow>(recording, notes, |row| {
            if wanted.contains(&row.stack_id) {
                out.frames_of.entry(row.stack_id).or_insert_with(|| row.frame_ids.to_vec());
            }
        })?;
        let used: HashSet<u64> = out.frames_of.values().flatten().copied().collect();
        read::each::<FramesRow>(recording, notes, |row| {
            if used.contains(&row.frame_id) {
                out.names.entry(row.frame_id).or_insert_with(|| name_of(&row));
                if !row.kernel {
                    let of_module = || (row.symbol.map(str::to_owned), row.module.map(file_of));
                    out.of_modules.entry(row.frame_id).or_insert_with(of_module);
                }
            }
        })?;
        Ok(out)
    }

    /// The functions of a stack, innermost first. `None` if the stack is not in the recording.
    pub fn functions(&self, stack_id: u64) -> Option<Vec<String>> {
        let frames = self.frames_of.get(&stack_id)?;
        Some(frames.iter().map(|id| self.names.get(id).cloned().unwrap_or_else(|| format!("frame {id:#x}"))).collect())
    }

    /// The innermost function of a program's stack and the file name of its module, as far as they are known. `None` if the stack is
    /// not in the recording, or the kernel's.
    pub fn innermost(&self, stack_id: u64) -> Option<(Option<String>, Option<String>)> {
        self.of_modules.get(self.frames_of.get(&stack_id)?.first()?).cloned()
    }
}

/// The file name of a module's path.
fn file_of(path: &[u8]) -> String {
    let path = String::from_utf8_lossy(path);
    path.rsplit('/').next().unwrap_or(&path).to_owned()
}

/// The functions at places in modules, as far as a stack of the recording went through exactly there. `wanted` holds paths of
/// modules and offsets in their files.
pub(crate) fn functions_at(
    recording: &Recording,
    wanted: &HashSet<(Vec<u8>, u64)>,
    notes: &mut Vec<String>,
) -> Result<HashMap<(Vec<u8>, u64), String>> {
    let mut found: HashMap<(Vec<u8>, u64), String> = HashMap::new();
    if wanted.is_empty() {
        return Ok(found);
    }
    read::each::<FramesRow>(recording, notes, |row| {
        let (Some(module), Some(offset), Some(symbol)) = (row.module, row.module_offset, row.symbol) else { return };
        let place = (module.to_vec(), offset);
        // In a chain of inlined functions tools name the one that the compiler made code for.
        if wanted.contains(&place) && (!row.inlined || !found.contains_key(&place)) {
            found.insert(place, symbol.to_owned());
        }
    })?;
    Ok(found)
}

/// The function, or the place in its module.
pub(crate) fn name_of(row: &FramesRow<'_>) -> String {
    if let Some(symbol) = row.symbol {
        return symbol.to_owned();
    }
    let file = row.module.map_or_else(|| "[unknown]".to_owned(), file_of);
    match row.module_offset {
        Some(offset) => format!("{file}+{offset:#x}"),
        None => file,
    }
}

#[cfg(test)]
mod tests {
    use pagelab_recording::{Manifest, RecordingWriter, WriterOptions};

    use super::*;

    #[test]
    fn a_place_is_named_after_the_function_that_code_was_made_for() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("r");
        let mut writer =
            RecordingWriter::create(&path, Manifest::default(), WriterOptions::default()).expect("a recording");
        let frames = [
            (1, "inlined", Some(0x40), true),
            (2, "outer", Some(0x40), false),
            (3, "inlined_too", Some(0x40), true),
            (4, "alone", Some(0x80), true),
            (5, "elsewhere", Some(0xc0), false),
            (6, "nowhere", None, false),
        ];
        for (frame_id, symbol, module_offset, inlined) in frames {
            let (symbol, module) = (Some(symbol), Some(&b"/bin/x"[..]));
            writer.push_frames(&FramesRow { frame_id, symbol, module, module_offset, inlined, ..FramesRow::default() });
        }
        writer.close(|_| {}).expect("closed");
        let recording = Recording::open(&path).expect("opened");
        let place = |offset| (b"/bin/x".to_vec(), offset);
        let wanted = HashSet::from([place(0x40), place(0x80), place(0x100)]);
        let found = functions_at(&recording, &wanted, &mut Vec::new()).expect("read");
        let named = [(place(0x40), "outer".to_owned()), (place(0x80), "alone".to_owned())];
        assert_eq!(found, HashMap::from(named));
    }
}
