//! Persistent memory: namespaces (`/sys/bus/nd`) and devices of device DAX (`/sys/bus/dax`).

use std::path::Path;

use serde::Serialize;

use crate::files::{names, trimmed, under};

const ND: &str = "/sys/bus/nd/devices";
const DAX: &str = "/sys/bus/dax/devices";

/// A namespace of persistent memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Namespace {
    /// Its name, `namespace0.0`.
    pub name: String,
    /// `raw`, `sector`, `memory` (fsdax) or `dax` (device DAX); none if the kernel does not say.
    pub mode: Option<String>,
    /// Its size.
    pub bytes: Option<u64>,
    /// What its mappings are aligned to.
    pub align_bytes: Option<u64>,
    /// The block device that it is, `pmem0`.
    pub block_device: Option<String>,
}

/// A device of device DAX, which is mapped without a file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DaxDevice {
    /// Its name, `dax0.0`.
    pub name: String,
    /// Its size.
    pub bytes: Option<u64>,
    /// What its mappings must be aligned to.
    pub align_bytes: Option<u64>,
}

fn number(root: &Path, path: &str) -> Option<u64> {
    let text = trimmed(root, path)?;
    text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok())
}

/// All namespaces that have a size; the kernel keeps an empty one per region as a seed.
pub(super) fn namespaces(root: &Path) -> Vec<Namespace> {
    let all = names(&under(root, ND));
    let found = all.iter().filter(|name| name.starts_with("namespace")).map(|name| {
        let folder = format!("{ND}/{name}");
        // What claims the namespace has its block device below it.
        let holder = trimmed(root, &format!("{folder}/holder"));
        let block = |folder: &str| names(&under(root, &format!("{folder}/block"))).into_iter().next();
        Namespace {
            mode: trimmed(root, &format!("{folder}/mode")),
            bytes: number(root, &format!("{folder}/size")),
            align_bytes: holder.as_ref().and_then(|holder| number(root, &format!("{ND}/{holder}/align"))),
            block_device: holder.and_then(|holder| block(&format!("{ND}/{holder}"))).or_else(|| block(&folder)),
            name: name.clone(),
        }
    });
    found.filter(|namespace| namespace.bytes.is_some_and(|bytes| bytes > 0)).collect()
}

/// All devices of device DAX.
pub(super) fn dax_devices(root: &Path) -> Vec<DaxDevice> {
    let found = names(&under(root, DAX)).into_iter().map(|name| DaxDevice {
        bytes: number(root, &format!("{DAX}/{name}/size")),
        align_bytes: number(root, &format!("{DAX}/{name}/align")),
        name,
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Root;

    #[test]
    fn a_namespace_is_its_mode_its_size_and_its_block_device() {
        let root = Root::new();
        for (path, text) in [
            ("namespace0.0/mode", "memory\n"),
            ("namespace0.0/size", "0x40000000\n"),
            ("namespace0.0/holder", "pfn0.1\n"),
            ("pfn0.1/align", "2097152\n"),
            ("pfn0.1/block/pmem0/size", "1\n"),
            ("namespace0.1/size", "0\n"),
            ("namespace1.0/mode", "raw\n"),
            ("namespace1.0/size", "1048576\n"),
            ("namespace1.0/block/pmem1/size", "1\n"),
        ] {
            root.write(&format!("{ND}/{path}"), text);
        }
        let found = namespaces(root.path());
        let [memory, raw] = found.as_slice() else { panic!("two have a size: {found:?}") };
        assert_eq!(
            (memory.mode.as_deref(), memory.bytes, memory.align_bytes),
            (Some("memory"), Some(1 << 30), Some(2 << 20))
        );
        assert_eq!(memory.block_device.as_deref(), Some("pmem0"));
        assert_eq!((raw.mode.as_deref(), raw.block_device.as_deref()), (Some("raw"), Some("pmem1")));
        assert!(dax_devices(root.path()).is_empty());
    }
}
