//! What a fault got, from what the page table and the memory area say when it ends.

use pagelab_vocab::abi::{FAULT_PROTECTION, FAULT_WRITE};

use super::types::detail_fact as Fact;

/// The words for the memory that a fault got, each with its meaning. `huge_` says that one entry maps 2 MiB or more.
pub const GOT: [(&str, &str); 14] = [
    ("new", "a fresh page of anonymous memory"),
    ("huge_new", "a fresh huge page of anonymous memory"),
    ("zero", "the page of zeros that all reads of untouched memory share"),
    ("huge_zero", "the huge page of zeros"),
    (
        "cow",
        "a page of its own in place of one shared for reading: copied, or taken over where nobody else had it any more",
    ),
    ("huge_cow", "the same for a huge page"),
    ("page_cache", "a page of a file or of shared memory"),
    ("huge_page_cache", "the same by one entry for a huge page"),
    ("mkwrite", "leave to write to a page of a shared mapping that could be read before"),
    ("swap", "a page that was read from swap"),
    ("hugetlb", "a page of a hugetlb pool"),
    ("dax", "memory of a DAX device, as a small page"),
    ("huge_dax", "memory of a DAX device, as a huge page"),
    ("device", "memory that is not the page allocator's"),
];

/// The word; none if the walk, the area or the kind of fault is not known.
pub(super) fn got(facts: u32, error_code: u32) -> Option<&'static str> {
    let has = |fact: Fact| facts & fact.0 != 0;
    let huge = has(Fact::DETAIL_PMD) || has(Fact::DETAIL_PUD);
    let sized = |small, large| Some(if huge { large } else { small });
    if !has(Fact::DETAIL_AREA) || !(huge || has(Fact::DETAIL_PTE)) {
        return None;
    }
    if has(Fact::DETAIL_HUGETLB) {
        return Some("hugetlb");
    }
    if has(Fact::DETAIL_DAX) {
        return sized("dax", "huge_dax");
    }
    if has(Fact::DETAIL_DEVICE) {
        return Some("device");
    }
    let (there, write) = (error_code & FAULT_PROTECTION != 0, error_code & FAULT_WRITE != 0);
    let (file, shared) = (has(Fact::DETAIL_FILE), has(Fact::DETAIL_SHARED));
    match (there, write) {
        (true, true) if shared => Some("mkwrite"),
        (true, true) => sized("cow", "huge_cow"),
        // Another thread was first, or the access is of a kind that no page helps.
        (true, false) => None,
        (false, _) if shared => sized("page_cache", "huge_page_cache"),
        (false, true) if file => sized("cow", "huge_cow"),
        (false, false) if file => sized("page_cache", "huge_page_cache"),
        (false, write) => {
            // Older kernels do not mark the huge zero page: there it is recognised by not being writable.
            let read_only = huge && !write && has(Fact::DETAIL_WRITE_AREA) && !has(Fact::DETAIL_WRITABLE);
            if has(Fact::DETAIL_SPECIAL) || read_only {
                sized("zero", "huge_zero")
            } else if has(Fact::DETAIL_MAJOR) {
                Some("swap")
            } else {
                sized("new", "huge_new")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: u32 = 4;
    const WRITE_NEW: u32 = 6;
    const WRITE_THERE: u32 = 7;

    fn of(facts: &[Fact], error_code: u32) -> Option<&'static str> {
        got(facts.iter().fold(Fact::DETAIL_AREA.0, |all, fact| all | fact.0), error_code)
    }

    #[test]
    fn each_word_is_told_by_what_makes_it() {
        use Fact as F;
        let writable = F::DETAIL_WRITE_AREA;
        for (word, facts, code) in [
            ("new", &[F::DETAIL_PTE, F::DETAIL_WRITABLE, writable][..], WRITE_NEW),
            ("huge_new", &[F::DETAIL_PMD, F::DETAIL_WRITABLE, writable], WRITE_NEW),
            ("zero", &[F::DETAIL_PTE, F::DETAIL_SPECIAL, writable], READ),
            ("huge_zero", &[F::DETAIL_PMD, F::DETAIL_SPECIAL], READ),
            ("huge_zero", &[F::DETAIL_PMD, writable], READ),
            ("cow", &[F::DETAIL_PTE, F::DETAIL_WRITABLE, writable], WRITE_THERE),
            ("cow", &[F::DETAIL_PTE, F::DETAIL_FILE, F::DETAIL_WRITABLE, writable], WRITE_NEW),
            ("huge_cow", &[F::DETAIL_PMD, F::DETAIL_WRITABLE, writable], WRITE_THERE),
            ("page_cache", &[F::DETAIL_PTE, F::DETAIL_FILE], READ),
            ("page_cache", &[F::DETAIL_PTE, F::DETAIL_FILE, F::DETAIL_MAJOR], READ),
            ("page_cache", &[F::DETAIL_PTE, F::DETAIL_FILE, F::DETAIL_SHARED, F::DETAIL_WRITABLE], WRITE_NEW),
            ("huge_page_cache", &[F::DETAIL_PMD, F::DETAIL_FILE, F::DETAIL_SHARED], READ),
            ("mkwrite", &[F::DETAIL_PTE, F::DETAIL_FILE, F::DETAIL_SHARED, F::DETAIL_WRITABLE], WRITE_THERE),
            ("swap", &[F::DETAIL_PTE, F::DETAIL_MAJOR, F::DETAIL_WRITABLE, writable], WRITE_NEW),
            ("hugetlb", &[F::DETAIL_PUD, F::DETAIL_FILE, F::DETAIL_HUGETLB], READ),
            ("dax", &[F::DETAIL_PTE, F::DETAIL_FILE, F::DETAIL_DAX, F::DETAIL_SHARED], WRITE_NEW),
            ("huge_dax", &[F::DETAIL_PMD, F::DETAIL_FILE, F::DETAIL_DAX], READ),
            ("device", &[F::DETAIL_PTE, F::DETAIL_FILE, F::DETAIL_DEVICE, F::DETAIL_SPECIAL], READ),
        ] {
            assert_eq!(of(facts, code), Some(word), "{facts:?} {code}");
            assert!(GOT.iter().any(|(known, _)| *known == word), "{word} has no meaning");
        }
    }

    #[test]
    fn what_is_not_known_is_nothing() {
        let entry = Fact::DETAIL_PTE;
        assert_eq!(got(entry.0, READ), None, "the area could not be looked at");
        assert_eq!(of(&[], READ), None, "there is no entry");
        assert_eq!(of(&[entry], READ | 1), None, "a read of a page that was there");
    }
}
