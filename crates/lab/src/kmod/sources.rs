//! The sources of the lab's own modules, as they stand in `kernel/`.

/// A module of the lab's own.
pub(super) struct Own {
    /// As it is asked for: the name of its folder.
    pub(super) name: &'static str,
    /// What the kernel calls it.
    pub(super) module: &'static str,
    /// The folder of the kernel's sources that it is made from; `None` if all of it is our own.
    pub(super) part: Option<Part>,
    /// Path and text. A file `*.patch` is applied to the part, every other one is laid into the folder that is built.
    pub(super) files: &'static [(&'static str, &'static str)],
}

/// A part of the kernel that is built anew with a patch.
pub(super) struct Part {
    /// Below the top of the kernel's sources.
    pub(super) folder: &'static str,
    /// What makes the part a module, whatever the configuration says.
    pub(super) config: &'static str,
}

/// All there are.
pub(super) const OWN: [Own; 2] = [
    Own {
        name: "ramblk",
        module: "ramblk",
        part: None,
        files: &[
            ("Kbuild", include_str!("../../../../kernel/ramblk/Kbuild")),
            ("compat.h", include_str!("../../../../kernel/ramblk/compat.h")),
            ("ramblk.c", include_str!("../../../../kernel/ramblk/ramblk.c")),
        ],
    },
    Own {
        name: "ext4-dax-read",
        module: "ext4",
        part: Some(Part { folder: "fs/ext4", config: "CONFIG_EXT4_FS=m" }),
        files: &[("ext4-dax-read.patch", include_str!("../../../../kernel/ext4-dax-read/ext4-dax-read.patch"))],
    },
];
