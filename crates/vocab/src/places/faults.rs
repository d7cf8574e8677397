//! Page faults: entering them, filling pages, copying on write, mapped files, page tables.

pub(super) const PLACES: &[super::Place] = places! {
    ["asm_exc_page_fault", "exc_page_fault", "do_user_addr_fault", "do_page_fault", "do_translation_fault", "do_mem_abort"]
        what "entering and leaving a page fault, without the work on the page itself"
        by "a touch of memory whose page table entry is missing or forbids the access"
        set ["thp.enabled", "thp.<size>.enabled", "mm.fault_around_bytes", "cmdline.pti", "cmdline.mitigations"]
        next "count the faults by kind and mapping; many cheap faults ask for larger pages, populated mappings or memory that is reused";
    ["handle_mm_fault", "__handle_mm_fault"]
        what "finding the page table entry of a fault and choosing what kind of fault it is"
        by "every page fault, whatever it is on"
        set ["thp.enabled", "thp.<size>.enabled", "mm.fault_around_bytes"]
        next "compare the number of faults of both runs before the cost of one";
    ["clear_page_erms", "clear_page_rep", "clear_page_orig"]
        what "filling a new page with zeroes so that no old contents can be read"
        by "first touches of anonymous and shared memory, and memory that was given back and is taken again"
        set ["thp.enabled", "thp.<size>.enabled", "cmdline.init_on_alloc", "env.MALLOC_TRIM_THRESHOLD_", "env.MALLOC_MMAP_THRESHOLD_"]
        next "see which mapping is touched, and whether the allocator gives memory back between uses";
    ["folio_zero_user", "clear_huge_page"]
        what "filling a whole huge page with zeroes in one fault"
        by "the first touch of memory that gets a transparent or hugetlb page"
        set ["thp.enabled", "thp.<size>.enabled", "thp.use_zero_page", "hugetlb.<size>.nr_hugepages"]
        next "compare the bytes that the program touches with the bytes that are cleared; sparse use of huge pages clears much for nothing";
    ["do_anonymous_page"]
        what "setting up a small or medium page for memory that is not backed by a file"
        by "the first touch of heap, stack or anonymous mappings where no huge page is used"
        set ["thp.enabled", "thp.defrag", "thp.<size>.enabled", "env.MALLOC_TRIM_THRESHOLD_", "env.MALLOC_TOP_PAD_"]
        next "see whether huge pages were expected here (AnonHugePages in smaps) and why none was given";
    ["vma_alloc_folio_noprof", "vma_alloc_folio"]
        what "choosing the node and taking the page for a fault"
        by "faults on anonymous memory, copies on write and pages that come back from swap"
        set ["task.mems_allowed", "cgroup.cpuset.mems", "thp.<size>.enabled", "thp.defrag"]
        next "look below it: time in compaction or reclaim says that no page was free";
    ["do_wp_page"]
        what "deciding whether a write to a read-only page may reuse the page or has to copy it, and doing so"
        by "writes after fork, to private file mappings, to the zero page, or to pages that were write-protected to track changes"
        set ["thp.enabled", "mm.ksm.run", "redis: save", "redis: auto-aof-rewrite-percentage"]
        next "look for a fork shortly before, and for tools that clear soft-dirty bits or use userfaultfd's write protection";
    ["wp_page_copy", "do_cow_fault"]
        what "copying a page so that the writer gets its own"
        by "the first write to a page that is shared after fork, or that a private mapping shares with its file"
        set ["thp.enabled", "mm.ksm.run", "redis: save", "program: MAP_PRIVATE"]
        next "look for forks while the memory is being written, and for writes to data sections or MAP_PRIVATE files";
    ["copy_page", "copy_mc_enhanced_fast_string", "copy_mc_fragile"]
        what "the copy of page contents from one page to another"
        by "copies on write, collapsing small pages into huge ones, and moving pages between nodes or out of the way"
        set ["thp.enabled", "thp.khugepaged.defrag", "sysctl.kernel.numa_balancing", "mm.ksm.run"]
        next "the caller tells the reason: a fault, khugepaged, compaction or NUMA balancing";
    ["do_fault", "do_read_fault", "finish_fault"]
        what "handling a fault on a mapped file or on shared memory, and entering the page into the page table"
        by "the first touch of a page of such a mapping"
        set ["mm.fault_around_bytes", "block.<dev>.read_ahead_kb", "thp.shmem_enabled"]
        next "compare major faults with minor ones: the first wait for the device, the second only fill in page tables";
    ["filemap_map_pages", "next_uptodate_folio", "next_uptodate_page", "set_pte_range", "do_set_pte"]
        what "mapping the cached neighbours of a faulting file page along with it"
        by "faults on mapped files whose contents are in the page cache already"
        set ["mm.fault_around_bytes", "kconfig.READ_ONLY_THP_FOR_FS"]
        next "with few touches per region a smaller fault_around_bytes maps less for nothing; MAP_POPULATE or large folios need fewer faults";
    ["do_shared_fault", "do_page_mkwrite", "wp_page_shared"]
        what "telling the file system that a page of a shared mapping is about to be written"
        by "the first write to such a page, and the first one again after each time it was written back"
        set ["sysctl.vm.dirty_expire_centisecs", "sysctl.vm.dirty_background_bytes", "sysctl.vm.dirty_writeback_centisecs", "mount.<mountpoint>.options"]
        next "count the faults per written page: frequent write-back or msync makes every page fault again";
    ["iomap_page_mkwrite", "ext4_page_mkwrite", "btrfs_page_mkwrite", "__xfs_filemap_fault", "xfs_write_fault"]
        what "the file system's share of a write fault: blocks are reserved and the page is made dirty"
        by "the first write to a page of a shared file mapping since the page was last clean"
        set ["mount.<mountpoint>.options", "sysctl.vm.dirty_background_bytes", "sysctl.vm.dirty_expire_centisecs"]
        next "see whether the file has holes that the writes fill, and how often pages are cleaned by write-back";
    ["file_update_time", "file_update_time_flags"]
        what "setting the time of change of a file that is written"
        by "writes and write faults; each new time may start a journal transaction"
        set ["mount.<mountpoint>.options", "sysctl.vm.dirtytime_expire_seconds"]
        next "mount with lazytime and compare; many small writes pay for this most";
    ["__pte_alloc", "pte_alloc_one", "__pmd_alloc", "__pud_alloc"]
        what "making a page of the page table"
        by "the first touch in a region of 2 MiB (or of 1 GiB) of the address space"
        set ["thp.enabled", "sysctl.vm.overcommit_memory", "cgroup.memory.max"]
        next "look at VmPTE in /proc/PID/status; sparse use of a wide address space and many processes on one shared memory make it large";
    ["fault_in_readable", "fault_in_iov_iter_readable", "fault_in_writeable"]
        what "touching a caller's buffer before a copy that may not take a fault"
        by "writes to files from buffers, where the pages of the buffer may be absent"
        set ["sysctl.vm.swappiness", "thp.enabled", "sysctl.vm.overcommit_memory"]
        next "time below it belongs to faults on the buffer: see whether the buffer is new memory each time, or was swapped out";
    ["__get_user_pages", "gup_fast_fallback", "internal_get_user_pages_fast", "pin_user_pages_fast", "gup_fast_pte_range", "gup_pte_range"]
        what "looking up and holding the pages of a user buffer, one by one"
        by "direct I/O, io_uring buffers, RDMA and virtual machines that hand user memory to a device"
        set ["thp.enabled", "rlimit.memlock", "io_uring: IORING_REGISTER_BUFFERS", "hugetlb.<size>.nr_hugepages"]
        next "registered buffers or huge pages under the buffers make it cheaper; compare the time per byte";
    ["do_huge_pmd_anonymous_page", "vma_alloc_anon_folio_pmd"]
        what "giving anonymous memory a huge page in one fault"
        by "the first touch of an aligned region that may have transparent huge pages"
        set ["thp.enabled", "thp.defrag", "thp.use_zero_page", "env.GLIBC_TUNABLES"]
        next "compare thp_fault_alloc with thp_fault_fallback in /proc/vmstat, and look for compaction below it";
    ["do_huge_pmd_wp_page"]
        what "a write to a huge page that is shared or read-only: it is reused, or split and copied in small pages"
        by "writes after fork to memory with transparent huge pages"
        set ["thp.enabled", "thp.use_zero_page", "redis: save"]
        next "look for a fork before it; the split also loses the huge mapping, so later TLB misses grow";
    ["mm_populate", "populate_vma_page_range", "faultin_page_range"]
        what "touching a whole mapping on the program's behalf"
        by "MAP_POPULATE, mlock, mlockall and MADV_POPULATE_READ or _WRITE"
        set ["thp.enabled", "rlimit.memlock", "program: MAP_POPULATE", "hotspot: -XX:+AlwaysPreTouch"]
        next "the cost moves from the work to the start: compare it with the faults that it saves";
};
