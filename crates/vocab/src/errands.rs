//! Functions of the kernel that do much of many kinds for one purpose: neither a flush nor a copy of a page tells that it is a part of
//! copying a file to the upper layer of an overlay, and a comparison of names not that a security module is asked.

/// Their names; one that ends in `*` stands for all that begin so. `fs/overlayfs/copy_up.c`, `security/security.c`, `kernel/audit*.c`,
/// `kernel/bpf/cgroup.c`.
const ERRANDS: [&str; 6] =
    ["ovl_copy_up_flags", "ovl_copy_up_one", "security_*", "audit_*", "__audit_*", "__cgroup_bpf_*"];

/// What hands an event to a program that uses fanotify (`fs/notify/fanotify/fanotify.c`).
const FANOTIFY_EVENT: &str = "fanotify_handle_event";

/// Functions that do so to ask whether they may go on. Events that only tell of an open or a read come from their callers.
const ASK_BEFORE: [&str; 2] = ["do_dentry_open", "rw_verify_area"];

/// Whether a name is the one given, or begins as one that ends in `*`.
pub fn is_named(function: &str, name: &str) -> bool {
    name.strip_suffix('*').map_or(function == name, |begin| function.starts_with(begin))
}

/// The function of a stack, innermost first, that tells what the work below it is for: the outermost one that is known to.
pub fn errand_of_stack<'a>(innermost_first: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (mut found, mut event) = (None, None);
    for function in innermost_first {
        if function == FANOTIFY_EVENT {
            event = Some(function);
        } else if ASK_BEFORE.contains(&function) && event.is_some() {
            found = event;
        } else if ERRANDS.iter().any(|name| is_named(function, name)) {
            found = Some(function);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_function_tells_the_purpose() {
        let of = |stack: &[&'static str]| errand_of_stack(stack.iter().copied());
        let chown = ["submit_bio_wait", "ext4_sync_file", "ovl_copy_up_file", "ovl_copy_up_one", "ovl_copy_up_flags"];
        assert_eq!(of(&chown), Some("ovl_copy_up_flags"));
        assert_eq!(of(&chown[..4]), Some("ovl_copy_up_one"), "the outer one was inlined");
        assert_eq!(of(&["submit_bio_wait", "ext4_sync_file", "ovl_fsync"]), None);
        assert_eq!(
            of(&["strcmp", "aa_path_perm", "apparmor_file_open", "security_file_open"]),
            Some("security_file_open")
        );
        assert_eq!(of(&["memcpy", "audit_filter_rules", "__audit_syscall_exit"]), Some("__audit_syscall_exit"));
    }

    #[test]
    fn who_asks_is_told_from_who_tells() {
        let event = ["fsnotify_insert_event", "fanotify_handle_event", "fsnotify", "__fsnotify_parent"];
        let of = |outer: &[&'static str]| errand_of_stack(event.iter().chain(outer).copied());
        assert_eq!(of(&["do_dentry_open", "vfs_open"]), Some(FANOTIFY_EVENT));
        assert_eq!(of(&["rw_verify_area", "vfs_read"]), Some(FANOTIFY_EVENT));
        assert_eq!(of(&["vfs_open", "do_open"]), None, "the file is open");
        assert_eq!(errand_of_stack(["fsnotify", "do_dentry_open"]), None, "nobody uses fanotify");
    }
}
