//! Probes: what can be seen of a workload, and what each probe could not see.
//!
//! | module | sees | through |
//! |---|---|---|
//! | [`bpf`] | page faults, mapping actions, the life of tasks of one process tree | BPF on raw tracepoints |
//! | [`cpu`] | profile samples of that tree, 997 a second and CPU | BPF on a sampling perf event |
//! | [`stacks`] | nothing; it turns samples into stacks of frames, and names the frames | `.eh_frame`, symbol tables, perf maps |
//! | [`block`] | requests of the block layer | BPF on raw tracepoints |
//! | [`btf`] | nothing; it knows the running kernel's tracepoints and names | |
//! | [`counters`] | what processor and kernel count of one process tree | `perf_event_open` |
//! | [`dax`] | faults on files of DAX file systems | BPF on raw tracepoints |
//! | [`details`] | how page faults ended: major or minor, when, with what memory | BPF on the software events of faults |
//! | [`khugepaged`] | huge pages made of small ones, by khugepaged and MADV_COLLAPSE | BPF on raw tracepoints |
//! | [`feed`] | nothing; it turns what the observers see of a tree into rows | |
//! | [`metrics`] | counters and gauges of host and target, ten times a second | `/proc` and `/sys` |
//! | [`perf`] | page faults, mappings, tasks, system calls and samples of a process tree, without BPF | `perf_event_open` |
//! | [`process`] | nothing; it reads what `/proc` says of one process | `/proc` |
//! | [`regions`] | the page sizes that memory really has | PAGEMAP_SCAN and smaps |
//! | `speed` | how fast each CPU is meanwhile | system calls of its own, on each CPU |
//! | [`sums`] | how many page faults and system calls there are, and none of them | BPF on raw tracepoints |
//! | [`moment`] | nothing; it says what tasks do now, for who looks on | |
//! | [`tree`] | nothing; it is BPF or perf, whichever follows the recorded tree | |
//! | `vma_flags` | the flags of a process's mappings, without the walk that smaps makes | BPF iterator over areas |
//! | `waits` | the states of tasks, summed up: on a CPU, waiting for one, off the CPU by kind of wait | BPF on raw tracepoints |
//! | [`watcher`], [`watchers`] | nothing; what a probe is in the loop of a recording, and which ones there are | |
//! | [`streams`] | nothing; it names the streams of `--observe` | |
//!
//! Settings, which are read twice and not watched, are the business of `pagelab-host`.
//!
//! A probe writes the rows of its streams itself, and reports what it lost and what it left out; a probe that is not
//! available says why, what it would need and what to type. Nothing is decided by kernel version: a probe is tried.
//!
//! # Refusals
//! Names of functions come from files that recorded programs chose. Left out is the name, not the sample.
//!
//! | refused | test |
//! |---|---|
//! | a file that is not the mapped one any more, or is none (a pipe, a descriptor of ours) | `src/stacks/hostile.rs::only_the_regular_file_that_is_mapped_is_opened` |
//! | trust in a file that others, or a container, may have written | `src/stacks/hostile.rs::a_file_is_trusted_by_the_folders_above_it_and_by_where_its_process_lives` |
//! | a link out of the root of the recorded process | `src/stacks/roots.rs::nothing_outside_of_a_root_and_nothing_but_a_file_is_opened`, `src/stacks/names/tests.rs::links_lead_to_nothing_outside_of_the_root_and_to_regular_files_alone` |
//! | a debug file of another build | `src/stacks/names/tests.rs::a_debug_file_is_found_where_gdb_finds_it_and_believed_by_its_build_id_or_sum` |
//! | a perf map of another user, and more of one than has its room | `src/stacks/jit/mod.rs::the_file_of_another_user_is_not_believed_and_what_is_read_is_bounded` |
//! | a file that claims what it has not | `src/stacks/image.rs::a_file_that_claims_anything_is_read_or_refused`, `src/stacks/names/tests.rs::nothing_that_a_file_claims_ends_the_search` |
//! | a file that is cut while it is read, one whose reading has no end | `src/stacks/namer.rs::a_file_that_is_shortened_while_it_is_read_ends_the_child_alone`, `src/stacks/namer.rs::a_container_whose_file_takes_for_ever_has_no_more_names_and_the_others_have` |

pub mod block;
pub mod bpf;
pub mod btf;
pub mod counters;
pub mod cpu;
pub mod dax;
pub mod details;
pub mod feed;
pub mod khugepaged;
mod maps;
pub mod metrics;
pub mod moment;
pub mod perf;
pub mod process;
mod region_rows;
pub mod regions;
mod speed;
pub mod stacks;
pub mod streams;
pub mod sums;
pub mod syscalls;
pub mod tree;
mod vma_flags;
mod waits;
pub mod watcher;
pub mod watchers;
