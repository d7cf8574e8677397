//! What an area was to have, what it has, and why that is less: from what can be seen without asking the process.
//!
//! The words are those that pagelab's mapping library uses of its own maps. What cannot be seen from outside (memory
//! too fragmented at the time of the fault, small pages that were there before the advice) is `unknown`.

use std::fs;
use std::path::Path;

use super::scan::Run;
use super::smaps::Area;

/// The huge page of the middle level of the page tables.
pub const HUGE_BYTES: u64 = 2 << 20;

const THP: &str = "sys/kernel/mm/transparent_hugepage";

/// A setting about transparent huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Everywhere.
    Always,
    /// Where madvise(MADV_HUGEPAGE) asked.
    Advised,
    /// Nowhere.
    Never,
}

fn rule(word: &str) -> Option<Rule> {
    match word {
        "always" | "force" | "within_size" => Some(Rule::Always),
        "advise" | "madvise" => Some(Rule::Advised),
        "never" | "deny" => Some(Rule::Never),
        _ => None,
    }
}

/// The settings of the host that decide about huge pages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// Of anonymous memory; none if it cannot be read.
    pub anonymous: Option<Rule>,
    /// Of shared memory without a mount of its own: memfd, MAP_SHARED|MAP_ANONYMOUS, SysV segments.
    pub shared: Option<Rule>,
    /// Of tmpfs mounts: device as mountinfo prints it, and rule.
    pub mounts: Vec<(String, Rule)>,
    /// Devices of file systems whose files are all mapped directly (DAX), in the same form.
    pub dax: Vec<String>,
}

impl Policy {
    /// Reads the settings below `root` (`/` for this host).
    pub fn read(root: &Path) -> Self {
        let word = |name: &str| {
            let text = fs::read_to_string(root.join(THP).join(name)).ok()?;
            Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
        };
        let combined = |whole: &str, size: &str| match word(size).as_deref() {
            // Kernels before 6.8 know no settings for each size.
            None | Some("inherit") => word(whole).as_deref().and_then(rule),
            Some(own) => rule(own),
        };
        let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
        Self {
            anonymous: combined("enabled", "hugepages-2048kB/enabled"),
            shared: match word("shmem_enabled").as_deref() {
                Some("force") => Some(Rule::Always),
                Some("deny") => Some(Rule::Never),
                _ => combined("shmem_enabled", "hugepages-2048kB/shmem_enabled"),
            },
            mounts: mounts.lines().filter_map(tmpfs).collect(),
            dax: mounts.lines().filter_map(dax).collect(),
        }
    }

    /// The rule for an area; none for files on other file systems, and where it is not known.
    fn of(&self, area: &Area) -> Option<Rule> {
        if area.inode == 0 {
            return self.anonymous;
        }
        if ["/memfd:", "/dev/zero", "/SYSV"].iter().any(|name| area.path.starts_with(name.as_bytes())) {
            return self.shared;
        }
        let device = mount_device(&area.device)?;
        self.mounts.iter().find(|(known, _)| *known == device).map(|(_, rule)| *rule)
    }

    /// Whether it is a file that is mapped directly.
    pub fn is_dax(&self, area: &Area) -> bool {
        area.inode != 0 && mount_device(&area.device).is_some_and(|device| self.dax.contains(&device))
    }
}

/// `1:2b` as smaps prints a device, in hexadecimal, to `1:43` as mountinfo does.
fn mount_device(smaps: &str) -> Option<String> {
    let (major, minor) = smaps.split_once(':')?;
    Some(format!("{}:{}", u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?))
}

/// `36 35 259:0 / /mnt rw - ext4 /dev/pmem0 rw,dax=always`: the device, if the option says so for every file.
fn dax(line: &str) -> Option<String> {
    let (before, after) = line.split_once(" - ")?;
    let options = after.split_ascii_whitespace().nth(2)?;
    let all_files = options.split(',').any(|option| option == "dax" || option == "dax=always");
    all_files.then(|| before.split_ascii_whitespace().nth(2).map(str::to_owned))?
}

/// `36 35 0:43 / /mnt rw - tmpfs name rw,huge=always`: device and rule. Without the option it is never.
fn tmpfs(line: &str) -> Option<(String, Rule)> {
    let (before, after) = line.split_once(" - ")?;
    let device = before.split_ascii_whitespace().nth(2)?;
    let mut words = after.split_ascii_whitespace();
    if words.next()? != "tmpfs" {
        return None;
    }
    let options = words.nth(1)?;
    let found = options.split(',').find_map(|option| rule(option.strip_prefix("huge=")?)).unwrap_or(Rule::Never);
    Some((device.to_owned(), found))
}

/// Bytes of an area by the size of the pages that they are in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pages {
    /// In base pages.
    pub base_bytes: u64,
    /// Of these, in slots of 2 MiB that lie whole inside the area; none if the source does not tell where they are.
    pub base_in_slots_bytes: Option<u64>,
    /// In pages of 2 MiB.
    pub huge_bytes: u64,
    /// In pages of a hugetlb pool of another size.
    pub pool_bytes: u64,
}

impl Pages {
    /// Sorts the present pages of an area; `runs` are those of the process, in order.
    pub fn scanned(area: &Area, runs: &[Run]) -> Self {
        let mut pages = Self { base_in_slots_bytes: Some(0), ..Self::default() };
        let slots = (area.start.next_multiple_of(HUGE_BYTES), area.end & !(HUGE_BYTES - 1));
        let first = runs.partition_point(|run| run.end <= area.start);
        for run in runs.get(first..).unwrap_or_default().iter().take_while(|run| run.start < area.end) {
            let (low, high) = (run.start.max(area.start), run.end.min(area.end));
            if area.is_hugetlb() {
                pages.add_pool(area, high - low);
            } else if run.is_huge() {
                pages.huge_bytes += high - low;
            } else {
                pages.base_bytes += high - low;
                let inside = high.min(slots.1).saturating_sub(low.max(slots.0));
                pages.base_in_slots_bytes = pages.base_in_slots_bytes.map(|bytes| bytes + inside);
            }
        }
        pages
    }

    /// What smaps alone tells.
    pub fn summed(area: &Area) -> Self {
        let mut pages = Self {
            base_bytes: area.resident_bytes.saturating_sub(area.huge_bytes),
            huge_bytes: area.huge_bytes,
            ..Self::default()
        };
        pages.add_pool(area, area.hugetlb_bytes);
        pages
    }

    fn add_pool(&mut self, area: &Area, bytes: u64) {
        match area.kernel_page_bytes {
            HUGE_BYTES => self.huge_bytes += bytes,
            _ => self.pool_bytes += bytes,
        }
    }

    /// All that is there.
    pub fn present_bytes(&self) -> u64 {
        self.base_bytes + self.huge_bytes + self.pool_bytes
    }
}

/// What was asked for.
pub fn asked(area: &Area, policy: &Policy) -> Option<&'static str> {
    if area.is_hugetlb() {
        return Some("hugetlb");
    }
    // File systems advise their DAX areas themselves.
    if policy.is_dax(area) {
        return Some("dax");
    }
    if area.has_flag("nh") {
        return None;
    }
    if area.has_flag("hg") {
        return Some("madvise");
    }
    // The vdso and its like are the kernel's; a stack is ordinary memory.
    let kernels_own = area.path.first() == Some(&b'[') && area.path != b"[heap]" && area.path != b"[stack]";
    (policy.of(area) == Some(Rule::Always) && !kernels_own).then_some("always")
}

/// Why it is less than was asked for; none if it is not, or nothing was asked for.
pub fn reason(area: &Area, pages: &Pages, policy: &Policy, disabled_for_process: bool) -> Option<&'static str> {
    asked(area, policy)?;
    if pages.present_bytes() == 0 {
        return Some("not_touched");
    }
    if area.is_hugetlb() || pages.base_bytes == 0 {
        return None;
    }
    let first_slot = area.start.next_multiple_of(HUGE_BYTES);
    if first_slot.saturating_add(HUGE_BYTES) > area.end {
        return Some("leaves_mapping");
    }
    if pages.base_in_slots_bytes == Some(0) {
        return Some("leaves_mapping");
    }
    if disabled_for_process {
        return Some("disabled_for_process");
    }
    if policy.of(area) == Some(Rule::Never) {
        return Some(if area.inode == 0 { "thp_never" } else { "file_system_never" });
    }
    if area.inode != 0 && !area.start.wrapping_sub(area.offset).is_multiple_of(HUGE_BYTES) {
        return Some("not_aligned");
    }
    if area.thp_eligible == Some(false) && !policy.is_dax(area) {
        return Some("not_eligible");
    }
    Some("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x7000_0000_0000;

    fn area(bytes: u64, flags: &str) -> Area {
        Area { start: AT, end: AT + bytes, kernel_page_bytes: 4096, flags: flags.to_owned(), ..Area::default() }
    }

    fn policy(anonymous: Rule) -> Policy {
        Policy { anonymous: Some(anonymous), ..Policy::default() }
    }

    #[test]
    fn pages_are_sorted_by_size_and_place() {
        // From 1 MiB below a slot over two slots to 1 MiB behind them.
        let area = Area { start: AT - (1 << 20), end: AT + (5 << 20), ..area(0, "") };
        let runs = [
            Run::new(AT - (2 << 20), AT - (1 << 20), false),
            Run::new(AT - 8192, AT, false),
            Run::new(AT, AT + (2 << 20), true),
            Run::new(AT + (3 << 20), AT + (5 << 20), false),
            Run::new(AT + (6 << 20), AT + (7 << 20), false),
        ];
        let pages = Pages::scanned(&area, &runs);
        assert_eq!((pages.huge_bytes, pages.base_bytes), (2 << 20, 8192 + (2 << 20)));
        assert_eq!(pages.base_in_slots_bytes, Some(1 << 20), "the second slot's upper half");
        let pool = Area { kernel_page_bytes: 1 << 30, flags: "rd ht".to_owned(), ..area };
        assert_eq!(Pages::scanned(&pool, &runs[2..3]).pool_bytes, 2 << 20);
    }

    #[test]
    fn what_was_asked_for_has_one_word() {
        let always = policy(Rule::Always);
        assert_eq!(asked(&area(HUGE_BYTES, "rd wr hg"), &policy(Rule::Never)), Some("madvise"));
        assert_eq!(asked(&area(HUGE_BYTES, "rd wr"), &always), Some("always"));
        assert_eq!(asked(&area(HUGE_BYTES, "rd wr nh"), &always), None);
        assert_eq!(asked(&area(HUGE_BYTES, "rd wr"), &policy(Rule::Advised)), None);
        assert_eq!(asked(&area(HUGE_BYTES, "rd ht"), &policy(Rule::Never)), Some("hugetlb"));
        assert_eq!(asked(&Area { path: b"[vdso]".to_vec(), ..area(8192, "rd ex") }, &always), None);
        let file = Area { inode: 9, device: "08:01".to_owned(), path: b"/lib/x".to_vec(), ..area(HUGE_BYTES, "rd") };
        assert_eq!(asked(&file, &always), None, "files of a disk have no such setting");
        let mounted = Policy { mounts: vec![("0:43".to_owned(), Rule::Always)], ..Policy::default() };
        let shared = Area { device: "00:2b".to_owned(), ..file };
        assert_eq!(asked(&shared, &mounted), Some("always"));
    }

    #[test]
    fn a_reason_is_given_only_where_it_is_seen() {
        let base = |bytes| Pages { base_bytes: bytes, base_in_slots_bytes: Some(bytes), ..Pages::default() };
        let whole = area(4 * HUGE_BYTES, "rd wr hg");
        let why = |area: &Area, pages: &Pages, rule| reason(area, pages, &policy(rule), false);
        assert_eq!(why(&whole, &Pages::default(), Rule::Always), Some("not_touched"));
        assert_eq!(why(&whole, &base(4096), Rule::Never), Some("thp_never"));
        assert_eq!(why(&whole, &base(4096), Rule::Advised), Some("unknown"));
        assert_eq!(reason(&whole, &base(4096), &policy(Rule::Always), true), Some("disabled_for_process"));
        let huge = Pages { huge_bytes: 4 * HUGE_BYTES, base_in_slots_bytes: Some(0), ..Pages::default() };
        assert_eq!(why(&whole, &huge, Rule::Always), None);
        let edges = Pages { base_bytes: 4096, ..huge };
        assert_eq!(why(&whole, &edges, Rule::Always), Some("leaves_mapping"));
        assert_eq!(why(&area(HUGE_BYTES - 4096, "rd hg"), &base(4096), Rule::Always), Some("leaves_mapping"));
        let refused = Area { thp_eligible: Some(false), ..whole.clone() };
        assert_eq!(why(&refused, &base(4096), Rule::Always), Some("not_eligible"));
        let file = Area { inode: 5, offset: 1 << 20, device: "08:01".to_owned(), ..whole.clone() };
        assert_eq!(why(&file, &base(4096), Rule::Always), Some("not_aligned"));
        assert_eq!(why(&area(HUGE_BYTES, "rd"), &base(4096), Rule::Advised), None, "nothing was asked for");
        let direct = Policy { dax: vec!["8:1".to_owned()], ..Policy::default() };
        assert_eq!(reason(&file, &base(4096), &direct, false), Some("not_aligned"));
        let aligned = Area { offset: 0, thp_eligible: Some(false), ..file };
        assert_eq!(reason(&aligned, &base(4096), &direct, false), Some("unknown"), "eligible speaks of other pages");
        assert_eq!((asked(&aligned, &direct), asked(&whole, &direct)), (Some("dax"), Some("madvise")));
        let summed = Pages { base_in_slots_bytes: None, ..base(4096) };
        assert_eq!(why(&whole, &summed, Rule::Advised), Some("unknown"));
    }

    #[test]
    fn mounts_and_settings_are_read() {
        assert_eq!(tmpfs("36 35 0:43 / /mnt rw - tmpfs none rw,huge=within_size"), Some(("0:43".into(), Rule::Always)));
        assert_eq!(tmpfs("36 35 0:43 / /mnt rw - tmpfs none rw"), Some(("0:43".into(), Rule::Never)));
        assert_eq!(tmpfs("36 35 8:1 / /mnt rw - ext4 /dev/x rw"), None);
        assert_eq!(dax("36 35 259:0 / /mnt rw - ext4 /dev/pmem0 rw,dax=always").as_deref(), Some("259:0"));
        assert_eq!(dax("36 35 259:0 / /mnt rw - xfs /dev/pmem0 rw,dax=inode"), None);
        assert_eq!(Policy::read(Path::new("/nowhere")), Policy::default());
    }
}
