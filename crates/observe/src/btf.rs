//! The running kernel's types (`/sys/kernel/btf/vmlinux`): which tracepoints it has, and what its numbers mean.
//!
//! Numbers of enumerations differ between kernel versions, their names hardly do. So programs send numbers, and the
//! names come from the kernel that sent them.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Enum, Typedef};

/// Names of an enumeration's values.
pub type Names = Vec<(i64, String)>;

/// The types of the running kernel.
pub struct KernelTypes(Btf<'static>);

thread_local! {
    /// What somebody still holds.
    static HELD: RefCell<Weak<KernelTypes>> = const { RefCell::new(Weak::new()) };
}

impl KernelTypes {
    /// Reads them, once for all that hold them at the same time: there are a hundred thousand.
    ///
    /// # Errors
    /// The reason in words.
    pub fn read() -> Result<Rc<Self>, String> {
        HELD.with_borrow_mut(|held| {
            if let Some(types) = held.upgrade() {
                return Ok(types);
            }
            let types = Btf::from_vmlinux().map(|btf| Rc::new(Self(btf))).map_err(|error| {
                format!(
                    "the kernel's BTF cannot be read: {error:#}; needed: root and a kernel built with \
                     CONFIG_DEBUG_INFO_BTF=y; look: ls /sys/kernel/btf/vmlinux"
                )
            })?;
            *held = Rc::downgrade(&types);
            Ok(types)
        })
    }

    /// Whether the kernel has a raw tracepoint of this name.
    pub fn has_tracepoint(&self, name: &str) -> bool {
        self.0.type_by_name::<Typedef<'_>>(&format!("btf_trace_{name}")).is_some()
    }

    /// The values of the first of the enumerations that the kernel has, without the prefix that all of them bear;
    /// empty if it has none of them.
    pub fn names(&self, enumerations: &[&str], prefix: &str) -> Names {
        let Some(found) = enumerations.iter().find_map(|name| self.0.type_by_name::<Enum<'_>>(name)) else {
            return Names::new();
        };
        let members = found.iter().filter_map(|member| {
            let name = member.name?.to_str()?;
            Some((member.value, name.strip_prefix(prefix).unwrap_or(name).to_owned()))
        });
        members.collect()
    }
}
