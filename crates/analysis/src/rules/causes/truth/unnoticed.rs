//! Changes of facts that no answer shows, each with the reason. The list may only get shorter.

/// A share of the time on CPUs that does not rise leaves nothing to claim: what each second on CPUs waits more is the claim itself.
const CLAIM_SAYS_IT: &str =
    "the claim is what each second on CPUs waits longer: where the ratio does not rise, nothing is claimed";
/// `claims huge pages` differs only where a cause has next to nothing of the loss and the program's own code has most of it.
const OWN_CODE_IS_IN_IT: &str =
    "its components hold the program's own code, or all of the loss: nothing is left that could show later";
/// What is counted is 0 or 1.
const IS_OR_IS_NOT: &str = "a device is the other side's or not: 0 or 1, and the level is between them";
/// All time of a component is spent in one way in a scene.
const ONE_WAY_IN_A_SCENE: &str =
    "its sign is told by stacks as well, and a scene spends all time of the one component in one way";
/// The sign cannot be seen without them either.
const STACKS_TELL_IT: &str = "its sign is told by stacks as well: without them it is not seen";
/// Both signs of one cause ask the same.
const ASKED_TWICE: &str = "both signs ask for time past the page cache: the other one still does";

/// What was changed, as the test calls it, and why nothing can notice it.
pub(super) const UNNOTICED: &[(&str, &str)] = &[
    ("access.checked: time without stacks, too", STACKS_TELL_IT),
    (
        "cpu.crowded: sign 'time waiting for the program's other tasks, in parts of the time on CPUs,' not divided",
        CLAIM_SAYS_IT,
    ),
    ("cpu.quota: sign 'time waiting for quota in parts of the time on CPUs' not divided", CLAIM_SAYS_IT),
    ("cpu.frequency: claims huge pages", OWN_CODE_IS_IN_IT),
    ("numa.remote: claims huge pages", OWN_CODE_IS_IN_IT),
    ("program.changed: claims huge pages", OWN_CODE_IS_IN_IT),
    (
        "reads.more: claims huge pages",
        "its sign wants 1.2 times the time: a rise that is next to nothing of the loss is not seen in the row's scene",
    ),
    (
        "cpu.neighbour: component ready.foreign for ready.own",
        "waits of the program's own tasks add to a loss that neighbours have already: the cause holds without them",
    ),
    (
        "cpu.neighbour: component ready.own gone",
        "waits of the program's own tasks add to a loss that neighbours have already: the cause holds without them",
    ),
    ("data.compressed: time without stacks, too", STACKS_TELL_IT),
    ("gc.more: claims huge pages", OWN_CODE_IS_IN_IT),
    ("gc.more: time in any way", ONE_WAY_IN_A_SCENE),
    ("gc.more: time without stacks, too", STACKS_TELL_IT),
    ("observed.by_others: time in any way", ONE_WAY_IN_A_SCENE),
    ("observed.by_others: time without stacks, too", ONE_WAY_IN_A_SCENE),
    ("device.other: sign 'devices of the target that the other side does not use' by 1.5", IS_OR_IS_NOT),
    ("device.other: sign 'devices of the target that the other side does not use' least by 1.5", IS_OR_IS_NOT),
    ("device.other: sign 'devices of the target that the other side does not use' least times 1.5", IS_OR_IS_NOT),
    ("device.other: sign 'devices of the target that the other side does not use' times 1.5", IS_OR_IS_NOT),
    (
        "device.other: claims counts disk.writes_merged for disk.writes",
        "the row's claim is asked of reads; that of writes differs by less than a share is known to",
    ),
    (
        "device.slower: claims counts disk.writes_merged for disk.writes",
        "the row's claim is asked of reads; that of writes differs by less than a share is known to",
    ),
    (
        "io.smaller_requests: sign 'bytes of a call' or 'bytes of a request of the device' beside 'time in reads and writes past the page cache' by 1.5",
        ASKED_TWICE,
    ),
    (
        "io.smaller_requests: sign 'bytes of a call' or 'bytes of a request of the device' beside 'time in reads and writes past the page cache' gone",
        ASKED_TWICE,
    ),
    (
        "io.smaller_requests: sign 'read and write calls' or 'requests of the device' beside 'time in reads and writes past the page cache' by 1.5",
        ASKED_TWICE,
    ),
    (
        "io.smaller_requests: sign 'read and write calls' or 'requests of the device' beside 'time in reads and writes past the page cache' gone",
        ASKED_TWICE,
    ),
    (
        "io.smaller_requests: sign 'bytes of a call' or 'bytes of a request of the device' without disk.write_bytes",
        "more bytes written are a refuter of their own",
    ),
    (
        "program.changed: sign 'time in code of the program and its libraries' by 1.5",
        "what does not rise in most pairs of runs is no rise, whatever the ratio",
    ),
    (
        "program.starts: sign 'time in fork and exec' by 1.5",
        "what does not rise in most pairs of runs is no rise, whatever the ratio",
    ),
    ("program.starts: sign 'programs that were started' by 1.5", "without more programs nothing is claimed"),
    ("program.starts: sign 'programs that were started' gone", "without more programs nothing is claimed"),
];
