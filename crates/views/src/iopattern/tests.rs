//! Sixty ways of walking through files, made with a seed, and the pattern that each must be called.

use super::*;

/// SplitMix64, after Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

const BS: u64 = 4096;
const COUNT: u64 = 4000;
/// Blocks of the file that random access goes over.
const BLOCKS: u64 = 1 << 16;

fn op(file: u32, task: u32, write: bool, offset: u64, bytes: u64) -> Operation {
    Operation { file, task, write, offset, bytes }
}

fn sequential(task: u32, write: bool, from: u64, bs: u64) -> Vec<Operation> {
    (0..COUNT).map(|i| op(1, task, write, from + i * bs, bs)).collect()
}

fn strided(step: i64) -> Vec<Operation> {
    let start = if step < 0 { COUNT * step.unsigned_abs() } else { 0 };
    (0..COUNT).map(|i| op(1, 1, false, start.wrapping_add_signed(step * i as i64), BS)).collect()
}

fn random(seed: u64, write: bool, blocks: u64) -> Vec<Operation> {
    let mut random = Random(seed);
    (0..COUNT).map(|_| op(1, 1, write, random.below(blocks) * BS, BS)).collect()
}

/// fio's percentage_random: each operation is random with that chance, else behind the one before.
fn partly(seed: u64, percent: u64) -> Vec<Operation> {
    let (mut random, mut at) = (Random(seed), 0);
    let next = |_| {
        at = if random.percent(percent) { random.below(BLOCKS) } else { at + 1 };
        op(1, 1, false, at * BS, BS)
    };
    (0..COUNT).map(next).collect()
}

/// `zonesize` read in order, then `skip` left out.
fn zoned(zone: u64, skip: u64) -> Vec<Operation> {
    (0..COUNT).map(|i| op(1, 1, false, (i * BS) / zone * (zone + skip) + (i * BS) % zone, BS)).collect()
}

/// Mixes the lists, one operation of a list chosen at random each time.
fn mixed(seed: u64, lists: Vec<Vec<Operation>>) -> Vec<Operation> {
    let mut random = Random(seed);
    let mut lists: Vec<_> = lists.into_iter().map(|list| list.into_iter().peekable()).collect();
    let mut out = Vec::new();
    while !lists.is_empty() {
        let at = random.below(lists.len() as u64) as usize;
        match lists[at].next() {
            Some(operation) => out.push(operation),
            None => drop(lists.swap_remove(at)),
        }
    }
    out
}

/// Puts other operations of the same task on the same file between, as many as `percent` of the result.
fn noisy(seed: u64, percent: u64, operations: Vec<Operation>) -> Vec<Operation> {
    let mut random = Random(seed);
    let mut out = Vec::new();
    for operation in operations {
        while random.percent(percent) {
            let bytes = BS << random.below(3);
            out.push(op(operation.file, operation.task, operation.write, random.below(BLOCKS) * BS, bytes));
        }
        out.push(operation);
    }
    out
}

/// The pattern of reads and of writes of each file, all tasks together.
fn patterns(operations: &[Operation]) -> HashMap<(u32, bool), Shares> {
    let mut classifier = Classifier::default();
    let mut shares: HashMap<(u32, bool), Shares> = HashMap::new();
    for operation in operations {
        shares.entry((operation.file, operation.write)).or_default().add(classifier.operation(operation));
    }
    for (key, shares) in &shares {
        let count = operations.iter().filter(|one| (one.file, one.write) == *key).count() as u64;
        assert_eq!(shares.operations(), count, "every operation has one kind");
    }
    shares
}

fn of_file(file: u32, operations: Vec<Operation>) -> Vec<Operation> {
    operations.into_iter().map(|one| Operation { file, ..one }).collect()
}

fn of_task(task: u32, operations: Vec<Operation>) -> Vec<Operation> {
    operations.into_iter().map(|one| Operation { task, ..one }).collect()
}

/// One shared descriptor: positions in order, tasks by chance, and calls that overtake each other.
fn shared(seed: u64, tasks: u64, write: bool, overtaking: u64) -> Vec<Operation> {
    let mut random = Random(seed);
    let mut list: Vec<Operation> = (0..COUNT).map(|i| op(1, random.below(tasks) as u32, write, i * BS, BS)).collect();
    for at in 1..list.len() {
        if random.percent(overtaking) {
            list.swap(at - 1, at);
        }
    }
    list
}

/// Lengths that differ, one behind the other, as of a log.
fn appended(seed: u64, tasks: u64) -> Vec<Operation> {
    let (mut random, mut at) = (Random(seed), 0);
    let next = |_| {
        let bytes = 1 + random.below(8000);
        at += bytes;
        op(1, random.below(tasks) as u32, true, at - bytes, bytes)
    };
    (0..COUNT).map(next).collect()
}

type Case = (String, Vec<Operation>, Vec<((u32, bool), Pattern)>);

fn case(name: &str, operations: Vec<Operation>, expected: &[((u32, bool), Pattern)]) -> Case {
    (name.to_owned(), operations, expected.to_vec())
}

const READ: (u32, bool) = (1, false);
const WRITE: (u32, bool) = (1, true);

use Pattern::{Descending as Desc, Mixed, Random as Rand, Sequential as Seq, Strided as Stride};

fn plain() -> Vec<Case> {
    vec![
        case("read", sequential(1, false, 0, BS), &[(READ, Seq)]),
        case("write", sequential(1, true, 0, BS), &[(WRITE, Seq)]),
        case("read 128 KiB", sequential(1, false, 0, 32 * BS), &[(READ, Seq)]),
        case("randread", random(1, false, BLOCKS), &[(READ, Rand)]),
        case("randwrite", random(2, true, BLOCKS), &[(WRITE, Rand)]),
        case("randread of a small file", random(3, false, 512), &[(READ, Rand)]),
        case(
            "rw",
            mixed(4, vec![sequential(1, false, 0, BS), sequential(1, true, 0, BS)]),
            &[(READ, Seq), (WRITE, Seq)],
        ),
        case(
            "rw through one position",
            {
                let mut r = Random(5);
                sequential(1, false, 0, BS).into_iter().map(|one| Operation { write: r.percent(40), ..one }).collect()
            },
            &[(READ, Seq), (WRITE, Seq)],
        ),
        case(
            "randrw",
            mixed(6, vec![random(6, false, BLOCKS), random(7, true, BLOCKS)]),
            &[(READ, Rand), (WRITE, Rand)],
        ),
        case(
            "sequential reads, random writes",
            mixed(8, vec![sequential(1, false, 0, BS), random(9, true, BLOCKS)]),
            &[(READ, Seq), (WRITE, Rand)],
        ),
        case("percentage_random=10", partly(10, 10), &[(READ, Seq)]),
        case("percentage_random=25", partly(11, 25), &[(READ, Seq)]),
        case("percentage_random=50", partly(12, 50), &[(READ, Mixed)]),
        case("percentage_random=80", partly(13, 80), &[(READ, Rand)]),
        case("zones of 64 KiB", zoned(64 << 10, 192 << 10), &[(READ, Seq)]),
        case("zones of 1 MiB", zoned(1 << 20, 1 << 20), &[(READ, Seq)]),
        case("strided by 2", strided(2 * BS as i64), &[(READ, Stride)]),
        case("strided by 16", strided(16 * BS as i64), &[(READ, Stride)]),
        case("strided by 7.5", strided(15 * BS as i64 / 2), &[(READ, Stride)]),
        case("strided down", strided(-4 * BS as i64), &[(READ, Stride)]),
        case("descending", strided(-(BS as i64)), &[(READ, Desc)]),
    ]
}

fn noise() -> Vec<Case> {
    let mut cases = Vec::new();
    for percent in [5, 10, 20] {
        let with = |name: &str| format!("{name} with {percent} %");
        let seed = 100 + percent;
        cases.push(case(&with("read"), noisy(seed, percent, sequential(1, false, 0, BS)), &[(READ, Seq)]));
        cases.push(case(&with("write"), noisy(seed, percent, sequential(1, true, 0, BS)), &[(WRITE, Seq)]));
        cases.push(case(&with("randread"), noisy(seed, percent, random(seed, false, BLOCKS)), &[(READ, Rand)]));
        cases.push(case(&with("strided"), noisy(seed, percent, strided(8 * BS as i64)), &[(READ, Stride)]));
        cases.push(case(&with("descending"), noisy(seed, percent, strided(-(BS as i64))), &[(READ, Desc)]));
        let appends = noisy(seed, percent, appended(seed, 3));
        cases.push(case(&with("O_APPEND of three"), appends, &[(WRITE, Seq)]));
        let sequential_between = mixed(
            seed,
            vec![random(seed, false, BLOCKS), {
                let some = sequential(1, false, BLOCKS * BS * 2, BS);
                some.into_iter().take((COUNT * percent / (100 - percent)) as usize).collect()
            }],
        );
        cases.push(case(&with("randread, sequential between"), sequential_between, &[(READ, Rand)]));
    }
    cases
}

/// Operations further on in the file.
fn moved(by: u64, operations: Vec<Operation>) -> Vec<Operation> {
    operations.into_iter().map(|one| Operation { offset: one.offset + by, ..one }).collect()
}

/// Several files, descriptors that are shared, and lengths that differ.
fn shared_files() -> Vec<Case> {
    let files = |lists: Vec<Vec<Operation>>| {
        mixed(50, lists.into_iter().zip(1..).map(|(list, file)| of_file(file, list)).collect())
    };
    vec![
        case(
            "three files interleaved",
            files(vec![sequential(1, false, 0, BS), random(52, false, BLOCKS), strided(4 * BS as i64)]),
            &[((1, false), Seq), ((2, false), Rand), ((3, false), Stride)],
        ),
        case(
            "eight files in order",
            files((0..8).map(|_| sequential(1, false, 0, BS)).collect()),
            &(1..=8).map(|file| ((file, false), Seq)).collect::<Vec<_>>(),
        ),
        case("two threads, one descriptor", shared(53, 2, false, 0), &[(READ, Seq)]),
        case("eight threads, one descriptor", shared(54, 8, false, 0), &[(READ, Seq)]),
        case("threads that overtake each other", shared(55, 4, false, 15), &[(READ, Seq)]),
        case("writers that overtake each other", shared(56, 8, true, 30), &[(WRITE, Seq)]),
        case("O_APPEND", appended(58, 1), &[(WRITE, Seq)]),
        case("O_APPEND of four", appended(59, 4), &[(WRITE, Seq)]),
        case(
            "preadv: several blocks each",
            (0..COUNT).map(|i| op(1, 1, false, i * 3 * BS, 3 * BS)).collect(),
            &[(READ, Seq)],
        ),
        case(
            "random of differing lengths",
            {
                let mut r = Random(61);
                (0..COUNT).map(|_| op(1, 1, false, r.below(BLOCKS) * BS, BS << r.below(4))).collect()
            },
            &[(READ, Rand)],
        ),
        case(
            "zipf",
            {
                let mut r = Random(62);
                (0..COUNT)
                    .map(|_| {
                        let u = (r.below(1 << 20) + 1) as f64 / f64::from(1 << 20);
                        op(1, 1, false, ((BLOCKS as f64).powf(u) as u64) * 40_503 % BLOCKS * BS, BS)
                    })
                    .collect()
            },
            &[(READ, Rand)],
        ),
    ]
}

/// Several tasks, each in its own way.
fn together() -> Vec<Case> {
    let tasks = |lists: Vec<Vec<Operation>>| {
        mixed(51, lists.into_iter().zip(1..).map(|(list, task)| of_task(task, list)).collect())
    };
    let far = |n: u64| n * COUNT * BS * 2;
    vec![
        case(
            "threads with regions of their own",
            tasks((0..8).map(|n| sequential(1, false, far(n), BS)).collect()),
            &[(READ, Seq)],
        ),
        case(
            "a task with twelve streams",
            mixed(57, (0..12).map(|n| sequential(1, false, far(n), BS)).collect()),
            &[(READ, Seq)],
        ),
        case("32 threads in order", tasks((0..32).map(|n| sequential(1, true, far(n), BS)).collect()), &[(WRITE, Seq)]),
        case("16 random threads", tasks((0..16).map(|n| random(60 + n, false, BLOCKS)).collect()), &[(READ, Rand)]),
        case(
            "a stream among four random threads, by count",
            tasks(
                (0..5)
                    .map(|n| if n == 0 { sequential(1, false, far(9), BS) } else { random(80 + n, false, BLOCKS) })
                    .collect(),
            ),
            &[(READ, Rand)],
        ),
        case(
            "two strided threads",
            tasks(vec![strided(4 * BS as i64), moved(far(20), strided(6 * BS as i64))]),
            &[(READ, Stride)],
        ),
        case(
            "two descending threads",
            tasks(vec![strided(-(BS as i64)), moved(far(20), strided(-(BS as i64)))]),
            &[(READ, Desc)],
        ),
    ]
}

#[test]
fn at_least_95_of_100_cases_are_called_what_they_are() {
    let cases: Vec<Case> = [plain(), noise(), shared_files(), together()].into_iter().flatten().collect();
    assert_eq!(cases.len(), 60);
    let mut wrong = Vec::new();
    for (name, operations, expected) in &cases {
        let found = patterns(operations);
        for (key, pattern) in expected {
            let shares = found.get(key).copied().unwrap_or_default();
            if shares.pattern() != Some(*pattern) {
                wrong.push(format!("{name} {key:?}: {shares:?}, not {pattern:?}"));
                break;
            }
        }
    }
    assert!(wrong.len() * 20 <= cases.len(), "{} of {} wrong:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    println!("{} of {} right; wrong: {wrong:#?}", cases.len() - wrong.len(), cases.len());
}

#[test]
fn a_program_without_noise_is_of_one_kind_throughout() {
    for (name, operations, kind) in [
        ("sequential", sequential(1, false, 0, BS), Pattern::Sequential),
        ("strided", strided(3 * BS as i64), Pattern::Strided),
        ("descending", strided(-(BS as i64)), Pattern::Descending),
        ("repeated", (0..COUNT).map(|_| op(1, 1, false, 8192, 512)).collect(), Pattern::Repeated),
    ] {
        let shares = patterns(&operations)[&READ];
        let count = shares.kinds().into_iter().find(|(one, _)| *one == kind).map_or(0, |(_, count)| count);
        assert!(count + 1 >= COUNT, "{name}: {shares:?}");
    }
    let one = patterns(&[op(1, 1, false, 0, BS)])[&READ];
    assert_eq!((one.pattern(), one.operations()), (None, 1));
    let two = patterns(&[op(1, 1, false, 0, BS), op(1, 1, false, BS, BS)])[&READ];
    assert_eq!((two.pattern(), two.sequential), (Some(Pattern::Sequential), 2));
}

#[test]
fn the_share_of_what_is_mixed_in_is_found() {
    for percent in [10, 30, 50, 70, 90] {
        let shares = patterns(&partly(200 + percent, percent))[&READ];
        let found = 100.0 * shares.random as f64 / shares.operations() as f64;
        assert!((found - percent as f64).abs() < 4.0, "{percent} %: {shares:?}");
    }
}

#[test]
fn streams_are_counted_whoever_makes_them() {
    for streams in [1, 4, 12] {
        let far = |n: u64| n * COUNT * BS * 2;
        let one_task = mixed(70, (0..streams).map(|n| sequential(1, false, far(n), BS)).collect());
        assert_eq!(patterns(&one_task)[&READ].streams, streams);
        let tasks = mixed(71, (0..streams).map(|n| sequential(n as u32, false, far(n), BS)).collect());
        assert_eq!(patterns(&tasks)[&READ].streams, streams);
    }
    assert_eq!(patterns(&random(72, false, BLOCKS))[&READ].streams, 0);
}
