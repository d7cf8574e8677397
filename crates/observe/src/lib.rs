//! Probes: BPF programs, samplers of /proc and /sys, and what each could see.

pub mod bpf;
