//! Stacks as lists of functions.

use std::collections::HashMap;

use pagelab_recording::Recording;
use pagelab_recording::tables::{FramesRow, StacksRow};

use crate::error::Result;
use crate::read;

/// What frames are counted under: a symbol of a module, or all of a module that has no symbol.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Function {
    /// Its name.
    pub symbol: Option<String>,
    /// The module's path.
    pub module: Option<String>,
    /// Kernel code.
    pub kernel: bool,
}

/// All frames and stacks of a recording; functions are referred to by number.
#[derive(Debug, Default)]
pub(super) struct Frames {
    functions: Vec<Function>,
    stacks: HashMap<u64, Vec<u32>>,
}

impl Frames {
    /// Reads both tables.
    pub(super) fn load(recording: &Recording, notes: &mut Vec<String>) -> Result<Self> {
        let mut frames = Self::default();
        let (mut numbers, mut by_id) = (HashMap::new(), HashMap::new());
        read::each::<FramesRow>(recording, notes, |row| {
            let function = Function {
                symbol: row.symbol.map(str::to_owned),
                module: row.module.map(|path| String::from_utf8_lossy(path).into_owned()),
                kernel: row.kernel,
            };
            let functions = &mut frames.functions;
            let number = *numbers.entry(function).or_insert_with_key(|function| {
                functions.push(function.clone());
                functions.len() as u32 - 1
            });
            by_id.insert(row.frame_id, number);
        })?;
        let mut missing = 0_u64;
        let stacks = &mut frames.stacks;
        read::each::<StacksRow>(recording, notes, |row| {
            let functions = row.frame_ids.iter().filter_map(|id| by_id.get(id).copied());
            let functions: Vec<u32> = functions.collect();
            missing += (row.frame_ids.len() - functions.len()) as u64;
            stacks.insert(row.stack_id, functions);
        })?;
        if missing > 0 {
            notes.push(format!("{missing} frames of stacks are not in the recording and are left out"));
        }
        Ok(frames)
    }

    /// The functions of a stack, innermost first; empty if the recording lacks it.
    pub(super) fn stack(&self, id: Option<u64>) -> &[u32] {
        id.and_then(|id| self.stacks.get(&id)).map_or(&[], Vec::as_slice)
    }

    /// The function of a number.
    pub(super) fn function(&self, number: u32) -> &Function {
        &self.functions[number as usize]
    }
}
