//! System calls as the probe must know them, and whoever writes their rows: by number, from the registry in `pagelab-vocab`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use pagelab_vocab::syscalls::i386::{self, CompatDef, Part};
use pagelab_vocab::syscalls::{self, ArgKind, Class, Returns, SyscallDef, Transfer};

use crate::bpf::{Call, CallInfo};

/// Stands for the number of every call that is beyond those of x86-64 and of i386: of x32, and of no kernel (`bpf/wire.h`).
pub const OTHER: u32 = 2 * i386::NUMBERS_FROM;

/// The properties of a call, by its number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// Its name; empty if the registry does not know it: then it has one by its number ([`Shapes::name_of`]).
    pub name: &'static str,
    /// How many arguments it takes.
    pub args: u8,
    /// Which of them is the descriptor that it works on.
    pub fd_arg: Option<u8>,
    /// Which of them is the number of bytes asked for.
    pub requested_arg: Option<u8>,
    /// Which of them is the offset in the file.
    pub offset_arg: Option<u8>,
    /// It makes a descriptor and returns it.
    pub returns_fd: bool,
    /// It transfers at the file's position, unless an offset other than -1 is given.
    pub moves_position: bool,
    /// Its second and third argument are an array of buffers.
    pub sums_vector: bool,
    /// For a 32-bit program: the registers of its arguments.
    compat: Option<&'static CompatDef>,
}

fn kind_at(call: &SyscallDef, index: usize) -> Option<ArgKind> {
    call.args.get(index).map(|arg| arg.kind)
}

impl Shape {
    fn of(call: &SyscallDef) -> Self {
        let index = |at: Option<usize>| at.and_then(|at| u8::try_from(at).ok());
        let offset_arg = index(call.offset_arg());
        let transfers = matches!(call.transfer, Some(Transfer::Read | Transfer::Write)) && call.fd_arg().is_some();
        // The second versions take -1 for "at the file's position".
        let may_move = offset_arg.is_none() || call.name.ends_with("v2");
        Self {
            name: call.name,
            args: call.args.len().min(6) as u8,
            fd_arg: index(call.fd_arg()),
            requested_arg: index(call.count_arg()),
            offset_arg,
            returns_fd: call.returns == Returns::Fd,
            moves_position: transfers && may_move,
            sums_vector: kind_at(call, 1) == Some(ArgKind::Iovec) && kind_at(call, 2) == Some(ArgKind::IovCount),
            compat: None,
        }
    }

    /// A call of 32-bit programs, with its arguments in the order of x86-64.
    fn of_compat(call: &'static CompatDef) -> Self {
        let like = call.like.map(Self::of).unwrap_or_default();
        Self { name: call.name, args: call.parts().len() as u8, compat: Some(call), ..like }
    }

    /// The properties that the program needs: there arguments are registers.
    fn info(&self, nr: u32) -> CallInfo {
        let register = |call: &CompatDef, arg: u8| call.parts().get(usize::from(arg)).map(|part| part.register());
        let (args, fd_arg) = match self.compat {
            Some(call) => (call.registers(), self.fd_arg.and_then(|arg| register(call, arg))),
            None => (self.args, self.fd_arg),
        };
        CallInfo {
            nr,
            args,
            fd_arg,
            returns_fd: self.returns_fd,
            moves_position: self.moves_position,
            sums_vector: self.sums_vector,
        }
    }
}

/// The calls that are recorded, by number.
#[derive(Debug, Clone, Default)]
pub struct Shapes {
    by_number: Vec<Option<Shape>>,
    /// Stands for the others: all their arguments are kept.
    unknown: Shape,
    /// The others are recorded, too.
    all: bool,
}

impl Shapes {
    /// The calls that `filter` leaves: all, if it is empty.
    pub fn of(filter: &CallFilter) -> Self {
        let unknown = Shape { args: 6, ..Shape::default() };
        let mut shapes = Self { unknown, all: filter.is_empty(), ..Self::default() };
        for call in syscalls::all().iter().filter(|call| filter.takes(Some(call))) {
            shapes.add(call.number, Shape::of(call));
        }
        for call in i386::all().iter().filter(|call| filter.takes(call.like)) {
            shapes.add(i386::NUMBERS_FROM + call.number, Shape::of_compat(call));
        }
        shapes
    }

    /// The names by number; empty where the call is not recorded.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.by_number.iter().map(|shape| shape.map_or("", |shape| shape.name))
    }

    fn add(&mut self, number: u32, shape: Shape) {
        let number = number as usize;
        if self.by_number.len() <= number {
            self.by_number.resize(number + 1, None);
        }
        self.by_number[number] = Some(shape);
    }

    /// The properties of a call.
    #[inline]
    pub fn get(&self, number: u32) -> &Shape {
        self.by_number.get(number as usize).and_then(Option::as_ref).unwrap_or(&self.unknown)
    }

    /// The name of a call that has none in the registry.
    pub fn name_of(call: &Call) -> Cow<'static, str> {
        match call.nr {
            OTHER => syscalls::name_of(call.number),
            nr if nr >= i386::NUMBERS_FROM => Cow::Owned(syscalls::name_of_unknown(nr - i386::NUMBERS_FROM)),
            nr => syscalls::name_of(nr),
        }
    }

    /// The call with its arguments in the order of x86-64; none if it has them so.
    #[inline]
    pub fn as_64_bit(&self, call: &Call) -> Option<Call> {
        if call.nr < i386::NUMBERS_FROM {
            return None;
        }
        let compat = self.get(call.nr).compat?;
        let mut same = *call;
        same.args = [0; 6];
        for (arg, part) in same.args.iter_mut().zip(compat.parts()) {
            *arg = Part::of(*part, &call.args);
        }
        Some(same)
    }

    /// The properties of each that the program needs.
    pub fn infos(&self) -> Vec<CallInfo> {
        let others = self.unknown;
        let of = |nr: u32| match self.by_number.get(nr as usize).and_then(Option::as_ref) {
            Some(shape) => Some(shape.info(nr)),
            None => self.all.then(|| others.info(nr)),
        };
        (0..=OTHER).filter_map(of).collect()
    }
}

/// Which calls are recorded: those of some classes, and some by name. Empty: all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallFilter {
    classes: Vec<Class>,
    names: BTreeSet<&'static str>,
}

impl CallFilter {
    /// Adds a class (`desc`, `file`, `memory`, ...) or a call by name; false if the word is neither.
    pub fn add(&mut self, word: &str) -> bool {
        if let Some(class) = Class::named(word) {
            self.classes.push(class);
            return true;
        }
        let Some(call) = syscalls::by_name(word) else { return false };
        self.names.insert(call.name);
        true
    }

    /// Whether it takes every call.
    fn is_empty(&self) -> bool {
        self.classes.is_empty() && self.names.is_empty()
    }

    /// Whether it takes a call; none stands for a call of 32-bit programs of which nothing is known but its name.
    fn takes(&self, call: Option<&SyscallDef>) -> bool {
        if self.is_empty() {
            return true;
        }
        let Some(call) = call else { return false };
        self.names.contains(call.name) || self.classes.iter().any(|class| call.classes.contains(*class))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_leaves_classes_and_names() {
        let mut filter = CallFilter::default();
        assert!(filter.add("memory") && filter.add("read") && !filter.add("raed"));
        let shapes = Shapes::of(&filter);
        let names: BTreeSet<&str> = shapes.infos().iter().map(|info| shapes.get(info.nr).name).collect();
        assert!(names.contains("mmap") && names.contains("madvise") && names.contains("read"));
        assert!(!names.contains("write"));
        assert_eq!(Shapes::of(&CallFilter::default()).infos().len(), 1025, "every number, known or not");
    }

    #[test]
    fn a_32_bit_call_has_its_own_registers_and_the_arguments_of_its_64_bit_twin() {
        let mut filter = CallFilter::default();
        assert!(filter.add("pread64") && filter.add("mmap2"));
        let shapes = Shapes::of(&filter);
        let numbers: BTreeSet<u32> = shapes.infos().iter().map(|info| info.nr).collect();
        assert_eq!(numbers, BTreeSet::from([9, 17, 512 + 180, 512 + 192]));
        let info = shapes.infos().into_iter().find(|info| info.nr == 512 + 180).expect("pread64 of i386");
        assert_eq!((info.args, info.fd_arg), (5, Some(0)));
        let mut call = Call::default();
        (call.nr, call.args) = (512 + 180, [3, 0x8000, 4096, 8192, 1, 0]);
        let same = shapes.as_64_bit(&call).expect("it is of i386");
        assert_eq!(same.args, [3, 0x8000, 4096, (1 << 32) + 8192, 0, 0]);
        assert_eq!(shapes.get(call.nr).offset_arg, Some(3));
        call.nr = 17;
        assert_eq!(shapes.as_64_bit(&call), None);
    }

    #[test]
    fn a_call_that_nobody_knows_is_called_by_its_number() {
        let shapes = Shapes::of(&CallFilter::default());
        for (nr, number, name) in [
            (470, 0, "syscall_470"),
            (512 + 500, 0, "syscall_500"),
            (OTHER, 99_999, "syscall_99999"),
            (OTHER, 0x4000_0027, "getpid"),
        ] {
            let mut call = Call::default();
            (call.nr, call.number) = (nr, number);
            assert!(shapes.get(nr).name.is_empty());
            assert_eq!(Shapes::name_of(&call), name);
        }
    }

    #[test]
    fn transfers_are_told_by_where_they_happen() {
        let shapes = Shapes::of(&CallFilter::default());
        let shape = |name| shapes.get(syscalls::by_name(name).expect("a call").number);
        assert_eq!((shape("read").moves_position, shape("read").requested_arg), (true, Some(2)));
        assert_eq!((shape("pread64").moves_position, shape("pread64").offset_arg), (false, Some(3)));
        assert!(shape("preadv2").moves_position && !shape("preadv").moves_position);
        assert!(shape("openat").returns_fd && shape("openat").fd_arg.is_none());
        for (name, vector) in [("readv", true), ("pwritev2", true), ("read", false), ("sendmsg", false)] {
            assert_eq!(shape(name).sums_vector, vector, "{name}");
        }
        assert!(!shape("mmap").moves_position && shape("mmap").fd_arg == Some(4));
    }
}
