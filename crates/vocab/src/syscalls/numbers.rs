//! Names of calls whose number the registry does not have: those of x32, and those that no kernel has.

use std::borrow::Cow;

use super::by_number;

/// Set in the numbers of x32, whose programs have pointers of 32 bits: most calls have the number of x86-64 beside it.
const X32_BIT: u32 = 0x4000_0000;
/// The first number that x32 has for itself.
const X32_FROM: u32 = 512;
/// The calls of x32 that have numbers of their own, from [`X32_FROM`].
const X32: &str = "rt_sigaction rt_sigreturn ioctl readv writev recvfrom sendmsg recvmsg execve ptrace rt_sigpending \
     rt_sigtimedwait rt_sigqueueinfo sigaltstack timer_create mq_notify kexec_load waitid set_robust_list \
     get_robust_list vmsplice move_pages preadv pwritev rt_tgsigqueueinfo recvmmsg sendmmsg process_vm_readv \
     process_vm_writev setsockopt getsockopt io_setup io_submit execveat preadv2 pwritev2";

/// In front of the number of a call without a name.
const PREFIX: &str = "syscall_";

/// The name of the call that a 64-bit program makes by this number: `read`, or `syscall_470` if it is not known. Calls of x32
/// have their own names, as those of i386 do.
pub fn name_of(number: u32) -> Cow<'static, str> {
    let of_x32 = || {
        let number = number & !X32_BIT;
        match number.checked_sub(X32_FROM) {
            None => by_number(number).map(|call| call.name),
            Some(at) => X32.split_whitespace().nth(at as usize),
        }
    };
    let known = if number & X32_BIT == 0 { by_number(number).map(|call| call.name) } else { of_x32() };
    known.map_or_else(|| Cow::Owned(name_of_unknown(number)), Cow::Borrowed)
}

/// The name of a call of which only the number is known.
pub fn name_of_unknown(number: u32) -> String {
    format!("{PREFIX}{}", number.cast_signed())
}

/// Whether this is what [`name_of`] calls a number that it does not know.
pub fn is_number(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|number| number.parse::<i32>().is_ok())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_number_without_a_name_is_its_name() {
        for (number, name) in [
            (0, "read"),
            (470, "syscall_470"),
            (99_999, "syscall_99999"),
            (u32::MAX, "syscall_-1"),
            (X32_BIT + 39, "getpid"),
            (X32_BIT + 514, "ioctl"),
            (X32_BIT + 548, "syscall_1073742372"),
        ] {
            assert_eq!(name_of(number), name);
            assert_eq!(is_number(name), name.starts_with(PREFIX), "{name}");
        }
        assert!(!is_number("syscall_x") && !is_number("syscall_"));
    }

    #[test]
    fn numbers_of_x32_are_those_of_the_header() {
        let header = Path::new("/usr/include/x86_64-linux-gnu/asm/unistd_x32.h");
        let Ok(text) = std::fs::read_to_string(header) else {
            println!("not compared: {} is not here", header.display());
            return;
        };
        let mut compared = 0;
        for line in text.lines() {
            let Some((name, rest)) = line.strip_prefix("#define __NR_").and_then(|line| line.split_once(' ')) else {
                continue;
            };
            let Some(number) = rest.strip_prefix("(__X32_SYSCALL_BIT + ").and_then(|rest| rest.strip_suffix(')'))
            else {
                continue;
            };
            let number: u32 = number.parse().expect("a number");
            assert_eq!(name_of(X32_BIT | number), name);
            compared += 1;
        }
        assert!(compared > 300, "{compared}");
    }
}
