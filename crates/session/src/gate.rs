//! A program of some 200 bytes in which a recorded command waits for its start.
//!
//! The kernel keeps a process's largest resident size and its faults over an exec. A command that is forked from the
//! recorder begins with the recorder's: `true` would have used 24 MiB. So the forked process executes this program, from
//! memory, whose one child is the command-to-be: it has one page of code and a stack, waits at the gate, and executes
//! the command. By CLONE_PARENT it is the recorder's own child. Where the kernel does not let the program be executed
//! (`vm.memfd_noexec`), on other processors, and where no process may be added, the forked process waits itself.
//!
//! A script without `#!` is run by `/bin/sh`, as shells and `env` do.
//!
//! Its arguments are its own name, the path of the command, and the command's arguments; its environment is the command's.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::fs::MemfdFlags;

/// Numbers that the program needs; they stand in front of its code.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    /// Read end of the gate.
    pub gate: i32,
    /// Where the errno goes if the command cannot be executed.
    pub result: i32,
    /// Where the number of the process goes that is the command's.
    pub pid: i32,
    /// Whose child the command must be, or it ends; 0 if it outlives the recorder.
    pub recorder: i32,
    /// The command gets a process group of its own.
    pub own_group: bool,
    /// A command that the kernel does not know to execute is handed to the shell.
    pub shell: bool,
}

/// Where the program lies in its own memory.
#[cfg(target_arch = "x86_64")]
const BASE: u64 = 0x40_0000;
#[cfg(target_arch = "x86_64")]
const HEADERS: u64 = 64 + 2 * 56;

// Registers hold what the system calls need: rax the call and its result, rdi, rsi, rdx, r10, r8 the arguments; rbx the
// stack as the kernel made it: argc, argv, null, environment, null.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.pagelab_gate, \"ax\", @progbits",
    ".globl pagelab_gate_begin",
    ".hidden pagelab_gate_begin",
    ".globl pagelab_gate_entry",
    ".hidden pagelab_gate_entry",
    ".globl pagelab_gate_end",
    ".hidden pagelab_gate_end",
    "pagelab_gate_begin:",
    "20: .long 0", // gate
    "21: .long 0", // result
    "22: .long 0", // pid
    "23: .long 0", // recorder
    "24: .long 0", // own group
    "25: .long 0", // shell
    "pagelab_gate_entry:",
    "mov rbx, rsp",
    "sub rsp, 64",
    "mov eax, 56", // clone(CLONE_PARENT | SIGCHLD)
    "mov edi, 0x8011",
    "xor esi, esi",
    "xor edx, edx",
    "xor r10d, r10d",
    "xor r8d, r8d",
    "syscall",
    "test eax, eax",
    "jz 30f",
    "js 29f",
    "call 40f",
    "mov eax, 231", // exit_group(0)
    "xor edi, edi",
    "syscall",
    // No process may be added: this one is the command's.
    "29:",
    "mov eax, 39", // getpid
    "syscall",
    "call 40f",
    "30:",
    "mov edi, dword ptr [rip + 20b]",
    "call 41f",
    "mov edi, dword ptr [rip + 21b]",
    "call 41f",
    "mov edi, dword ptr [rip + 22b]",
    "call 41f",
    "cmp dword ptr [rip + 23b], 0",
    "je 31f",
    "mov eax, 157", // prctl(PR_SET_PDEATHSIG, SIGKILL)
    "mov edi, 1",
    "mov esi, 9",
    "syscall",
    "mov eax, 110", // getppid
    "syscall",
    "cmp eax, dword ptr [rip + 23b]",
    "jne 39f",
    "31:",
    "cmp dword ptr [rip + 24b], 0",
    "je 32f",
    "mov eax, 109", // setpgid(0, 0)
    "xor edi, edi",
    "xor esi, esi",
    "syscall",
    "32:",
    "xor eax, eax", // read(gate, stack, 1)
    "mov edi, dword ptr [rip + 20b]",
    "mov rsi, rsp",
    "mov edx, 1",
    "syscall",
    "cmp rax, -4", // EINTR
    "je 32b",
    "test rax, rax",
    "je 39f", // The recorder died before it was ready.
    "js 38f",
    "mov rdi, qword ptr [rbx + 16]", // execve(argv[1], argv + 2, environment)
    "lea rsi, [rbx + 24]",
    "mov rcx, qword ptr [rbx]",
    "lea rdx, [rbx + 8 * rcx + 16]",
    "mov eax, 59",
    "syscall",
    "cmp eax, -8", // ENOEXEC: a script without #!, which execvp hands to the shell
    "jne 38f",
    "cmp dword ptr [rip + 25b], 0",
    "je 38f",
    "lea rdi, [rip + 42f]", // execve("/bin/sh", {"/bin/sh", path, arguments...}, environment)
    "mov rcx, qword ptr [rbx + 16]",
    "mov qword ptr [rbx + 16], rdi",
    "mov qword ptr [rbx + 24], rcx",
    "lea rsi, [rbx + 16]",
    "mov eax, 59",
    "syscall",
    "38:",
    "neg eax",
    "mov dword ptr [rsp], eax",
    "mov eax, 1", // write(result, errno)
    "mov edi, dword ptr [rip + 21b]",
    "mov rsi, rsp",
    "mov edx, 4",
    "syscall",
    "39:",
    "mov eax, 231", // exit_group(125)
    "mov edi, 125",
    "syscall",
    // Tells the number in eax.
    "40:",
    "sub rsp, 16",
    "mov dword ptr [rsp], eax",
    "mov eax, 1",
    "mov edi, dword ptr [rip + 22b]",
    "mov rsi, rsp",
    "mov edx, 4",
    "syscall",
    "add rsp, 16",
    "ret",
    // Closes the descriptor in edi at the next exec.
    "41:",
    "mov eax, 72", // fcntl(F_SETFD, FD_CLOEXEC)
    "mov esi, 2",
    "mov edx, 1",
    "syscall",
    "ret",
    "42: .asciz \"/bin/sh\"",
    "pagelab_gate_end:",
    ".popsection",
);

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    static pagelab_gate_begin: u8;
    static pagelab_gate_entry: u8;
    static pagelab_gate_end: u8;
}

/// The program, in a file that exists in memory only.
#[cfg(target_arch = "x86_64")]
pub(crate) fn program(numbers: &Numbers) -> io::Result<OwnedFd> {
    let (begin, entry, end) =
        (&raw const pagelab_gate_begin, &raw const pagelab_gate_entry, &raw const pagelab_gate_end);
    let length = end as usize - begin as usize;
    // SAFETY: the three symbols are those of one block of assembly above, in this order; it is never written to.
    let code = unsafe { std::slice::from_raw_parts(begin, length) };
    let Numbers { gate, result, pid, recorder, own_group, shell } = *numbers;
    let words = [gate, result, pid, recorder, i32::from(own_group), i32::from(shell)].map(i32::to_le_bytes).concat();
    let start = BASE + HEADERS + (entry as u64 - begin as u64);
    let mut image = headers(start, HEADERS + length as u64);
    image.extend_from_slice(&words);
    image.extend_from_slice(code.get(words.len()..).unwrap_or_default());
    let mut file = memfd()?;
    file.write_all(&image)?;
    Ok(file.into())
}

/// The program is for one processor only.
#[cfg(not(target_arch = "x86_64"))]
pub fn program(_: &Numbers) -> io::Result<OwnedFd> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// An executable memfd; kernels before 6.3 need no flag for that.
#[cfg(target_arch = "x86_64")]
fn memfd() -> io::Result<File> {
    let name = "pagelab-gate";
    let flags = MemfdFlags::CLOEXEC;
    let made = rustix::fs::memfd_create(name, flags | MemfdFlags::EXEC);
    let made = made.or_else(|_| rustix::fs::memfd_create(name, flags))?;
    Ok(File::from(made))
}

/// The headers of an ELF program of one segment that is read and executed, with a stack that is not executed.
#[cfg(target_arch = "x86_64")]
fn headers(entry: u64, bytes: u64) -> Vec<u8> {
    const READ: u32 = 4;
    let mut out = Vec::new();
    // 64 bits, little-endian, version 1.
    out.extend_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    let halves = |out: &mut Vec<u8>, values: &[u16]| values.iter().for_each(|value| out.extend(value.to_le_bytes()));
    let longs = |out: &mut Vec<u8>, values: &[u64]| values.iter().for_each(|value| out.extend(value.to_le_bytes()));
    // An executable for x86-64; program headers follow at 64; no sections.
    halves(&mut out, &[2, 62]);
    out.extend(1_u32.to_le_bytes());
    longs(&mut out, &[entry, 64, 0]);
    out.extend(0_u32.to_le_bytes());
    halves(&mut out, &[64, 56, 2, 0, 0, 0]);
    // PT_LOAD, then PT_GNU_STACK: offset, address twice, size twice, alignment.
    for (kind, flags, numbers) in
        [(1, READ | 1, [0, BASE, BASE, bytes, bytes, 4096]), (0x6474_e551_u32, READ | 2, [0, 0, 0, 0, 0, 16])]
    {
        out.extend(kind.to_le_bytes());
        out.extend(flags.to_le_bytes());
        longs(&mut out, &numbers);
    }
    out
}
