//! Frames, and the hashes that name frames and stacks.

use twox_hash::XxHash64;

/// One frame of a stack: a row of the recording's `frames` without its id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frame {
    /// The function.
    pub symbol: Option<String>,
    /// Path of the binary; `[kernel]`, `[vdso]`, `[jit]`, or a module of the kernel in brackets.
    pub module: Option<Vec<u8>>,
    /// Build id of the binary, in hexadecimal.
    pub build_id: Option<String>,
    /// Offset in the binary's file, in the kernel from its first byte of code. In a caller it is that of the last byte of the call.
    pub module_offset: Option<u64>,
    /// Kernel code.
    pub kernel: bool,
    /// Inlined into the next frame of the stack.
    pub inlined: bool,
}

impl Frame {
    /// The frame's id: XXH64 with seed 0 over all members in their order. A member that may be missing begins with a
    /// byte that is 1 if it is there; a text is its length in 8 bytes and then itself; numbers are little-endian.
    pub fn id(&self) -> u64 {
        let mut bytes = Vec::with_capacity(160);
        let mut text = |value: Option<&[u8]>| {
            bytes.push(u8::from(value.is_some()));
            if let Some(value) = value {
                bytes.extend((value.len() as u64).to_le_bytes());
                bytes.extend(value);
            }
        };
        text(self.symbol.as_deref().map(str::as_bytes));
        text(self.module.as_deref());
        text(self.build_id.as_deref().map(str::as_bytes));
        bytes.push(u8::from(self.module_offset.is_some()));
        bytes.extend(self.module_offset.map(u64::to_le_bytes).into_iter().flatten());
        bytes.extend([u8::from(self.kernel), u8::from(self.inlined)]);
        XxHash64::oneshot(0, &bytes)
    }
}

/// The id of a stack: XXH64 with seed 0 over the ids of its frames, innermost first, little-endian.
pub fn stack_id(frame_ids: &[u64]) -> u64 {
    let bytes: Vec<u8> = frame_ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    XxHash64::oneshot(0, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_tell_members_apart_and_never_change() {
        let frame = Frame { symbol: Some("main".into()), module: Some(b"/bin/x".to_vec()), ..Frame::default() };
        let others = [
            Frame { symbol: None, ..frame.clone() },
            Frame { symbol: Some("mai".into()), module: Some(b"n/bin/x".to_vec()), ..Frame::default() },
            Frame { build_id: Some(String::new()), ..frame.clone() },
            Frame { module_offset: Some(0), ..frame.clone() },
            Frame { kernel: true, ..frame.clone() },
            Frame { inlined: true, ..frame.clone() },
        ];
        for other in &others {
            assert_ne!(frame.id(), other.id(), "{other:?}");
        }
        // Recordings of other hosts and versions hold these ids.
        assert_eq!(frame.id(), 6_116_894_130_387_147_409);
        assert_eq!(stack_id(&[1, 2]), 5_411_092_459_628_516_524);
        assert_ne!(stack_id(&[1, 2]), stack_id(&[2, 1]));
    }
}
