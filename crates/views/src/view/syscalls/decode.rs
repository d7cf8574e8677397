//! One call as text, in the way of strace.

use std::fmt::Write as _;

use pagelab_vocab::syscalls::{self, ArgKind, Returns, SyscallDef, Words};

use crate::calls::{Call, Files};
use crate::read::path_text;

/// AT_FDCWD: paths are relative to the working directory.
const AT_FDCWD: i32 = -100;
/// The calls of fcntl whose argument is a descriptor's or a file's flags.
const F_SETFD: u32 = 2;
const F_SETFL: u32 = 4;

/// `name(arguments) = result`. The path of the file is put behind the descriptor that it belongs to.
pub(super) fn call_text(call: &Call<'_>, files: &Files) -> String {
    let def = syscalls::by_name(call.name);
    let path = call.file_id.and_then(|id| files.get(id)).and_then(|file| file.path.as_deref()).map(path_text);
    let fd_at = def.and_then(SyscallDef::fd_arg);
    let mut out = format!("{}(", call.name);
    let count = def.map_or(6, |def| def.args.len());
    for (at, value) in call.args.iter().take(count).enumerate() {
        let arg = def.and_then(|def| def.args.get(at));
        if !is_read(def, at, &call.args) || arg.is_some_and(|arg| arg.kind == ArgKind::Unused) {
            continue;
        }
        if at > 0 {
            out.push_str(", ");
        }
        out.push_str(&arg_text(def, at, arg.map_or(ArgKind::Hex, |arg| arg.kind), *value, &call.args));
        if let Some(path) = path.as_ref().filter(|_| fd_at == Some(at)) {
            let _ = write!(out, "<{path}>");
        }
    }
    out.push_str(") = ");
    out.push_str(&result_text(def, call));
    let given = def.is_some_and(|def| def.returns == Returns::Fd) && call.ret.is_some_and(|ret| ret >= 0);
    if let Some(path) = path.filter(|_| fd_at.is_none() && given) {
        let _ = write!(out, "<{path}>");
    }
    out
}

/// Whether the kernel looks at the argument: permissions only where a file is made, the fourth of mremap only if it is fixed.
fn is_read(def: Option<&SyscallDef>, at: usize, args: &[u64; 6]) -> bool {
    const CREATES: u64 = 0o100 | 0x40_0000;
    let Some(def) = def else { return true };
    match (def.name, at) {
        ("open", 2) => args[1] & CREATES != 0,
        ("openat", 3) => args[2] & CREATES != 0,
        ("mq_open", 2 | 3) => args[1] & CREATES != 0,
        ("mremap", 4) => args[3] & 6 != 0,
        ("fcntl", 2) => !matches!(args[1] as u32, 1 | 3 | 9 | 11 | 1025 | 1032 | 1034),
        _ => true,
    }
}

fn arg_text(def: Option<&SyscallDef>, at: usize, kind: ArgKind, value: u64, args: &[u64; 6]) -> String {
    match kind {
        ArgKind::DirFd if value as i32 == AT_FDCWD => "AT_FDCWD".to_owned(),
        ArgKind::Fd | ArgKind::DirFd | ArgKind::Pid | ArgKind::Int => (value as i32).to_string(),
        ArgKind::Count | ArgKind::Length | ArgKind::IovCount => value.to_string(),
        ArgKind::Offset | ArgKind::FileOffset => (value as i64).to_string(),
        ArgKind::Mode => format!("0{:o}", value & 0o7777),
        ArgKind::Signal => syscalls::signal(value as i32),
        ArgKind::Flags(words) => words.decode(value as u32),
        ArgKind::Hex if def.is_some_and(|def| def.name == "fcntl") && at == 2 => match args[1] as u32 {
            F_SETFL => Words::Open.decode(value as u32),
            F_SETFD if value == 1 => "FD_CLOEXEC".to_owned(),
            _ => (value as i32).to_string(),
        },
        ArgKind::Path | ArgKind::Buffer | ArgKind::Iovec | ArgKind::Address if value == 0 => "NULL".to_owned(),
        _ => format!("{value:#x}"),
    }
}

fn result_text(def: Option<&SyscallDef>, call: &Call<'_>) -> String {
    let Some(ret) = call.ret else { return "?".to_owned() };
    if let Some(errno) = call.errno() {
        return syscalls::errno(errno).map_or_else(|| ret.to_string(), |name| format!("-1 {name}"));
    }
    match def.map(|def| def.returns) {
        Some(Returns::Address) => format!("{ret:#x}"),
        Some(Returns::Mode) => format!("0{ret:o}"),
        _ if def.is_some_and(|def| def.name == "fcntl") && call.args[1] as u32 == F_SETFL - 1 => {
            Words::Open.decode(ret as u32)
        }
        _ => ret.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use crate::calls::File;

    use super::*;

    fn text(name: &str, args: [u64; 6], ret: Option<i64>, file_id: Option<u32>) -> String {
        let files = Files([(1, File { path: Some(b"/etc/\x1bx".to_vec()), ..File::default() })].into_iter().collect());
        let call = Call {
            ts: 0,
            dur: None,
            task_id: 1,
            name,
            name_id: 0,
            args,
            fd: None,
            file_id,
            offset: None,
            implied: false,
            requested: None,
            ret,
            cpu_ns: None,
            blocked_ns: None,
        };
        call_text(&call, &files)
    }

    #[test]
    fn calls_read_as_in_strace() {
        let cwd = u64::from(AT_FDCWD as u32);
        for (name, args, ret, expected) in [
            ("read", [3, 0x7f00, 100, 9, 9, 9], Some(42), "read(3, 0x7f00, 100) = 42"),
            (
                "openat",
                [cwd, 0x10, 0x8_0000, 0o777, 0, 0],
                Some(-2),
                "openat(AT_FDCWD, 0x10, O_RDONLY|O_CLOEXEC) = -1 ENOENT",
            ),
            ("openat", [cwd, 0x10, 0o101, 0o644, 0, 0], Some(5), "openat(AT_FDCWD, 0x10, O_WRONLY|O_CREAT, 0644) = 5"),
            (
                "mmap",
                [0, 4096, 3, 0x22, u64::from(u32::MAX), 0],
                Some(0x7f12_0000),
                "mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f120000",
            ),
            ("madvise", [0x1000, 8192, 14, 0, 0, 0], Some(0), "madvise(0x1000, 8192, MADV_HUGEPAGE) = 0"),
            ("fcntl", [3, 4, 0o4002, 0, 0, 0], Some(0), "fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0"),
            ("fcntl", [3, 3, 77, 0, 0, 0], Some(0o102_000), "fcntl(3, F_GETFL) = O_RDONLY|O_APPEND|0x8000"),
            ("lseek", [3, u64::MAX, 2, 0, 0, 0], Some(99), "lseek(3, -1, SEEK_END) = 99"),
            (
                "socket",
                [1, 0x8_0001, 0, 0, 0, 0],
                Some(-97),
                "socket(AF_UNIX, SOCK_STREAM|SOCK_CLOEXEC, 0) = -1 EAFNOSUPPORT",
            ),
            ("preadv2", [3, 0x10, 2, 4096, 7, 1], Some(0), "preadv2(3, 0x10, 2, 4096, RWF_HIPRI) = 0"),
            ("exit_group", [1, 0, 0, 0, 0, 0], None, "exit_group(1) = ?"),
            ("nobody_knows", [1, 2, 0, 0, 0, 0], Some(0), "nobody_knows(0x1, 0x2, 0x0, 0x0, 0x0, 0x0) = 0"),
        ] {
            assert_eq!(text(name, args, ret, None), expected);
        }
    }

    #[test]
    fn the_path_stands_behind_its_descriptor() {
        assert_eq!(text("read", [3, 1, 2, 0, 0, 0], Some(0), Some(1)), "read(3</etc/\\u{1b}x>, 0x1, 2) = 0");
        assert_eq!(text("open", [1, 0, 0, 0, 0, 0], Some(4), Some(1)), "open(0x1, O_RDONLY) = 4</etc/\\u{1b}x>");
        assert_eq!(text("open", [1, 0, 0, 0, 0, 0], Some(-13), Some(1)), "open(0x1, O_RDONLY) = -1 EACCES");
    }
}
