//! Tests of the command line, on the program as a user runs it.
//!
//! One program: linking one for each file took longer than running them. Files that need a process of their own are programs of
//! their own; `Cargo.toml` names them.

mod arrows;
mod bad_input;
mod calls_fixture;
mod common;
mod companions;
mod compare;
mod compare_check;
mod confirm;
mod counters;
mod dataframes;
mod doctor;
mod doctor_dax;
mod doctor_mapped_by;
mod escapes;
mod export;
mod fio_conformance;
mod fio_patterns;
mod fio_tools;
mod first_hour;
mod help_files;
mod hugepages;
mod kernel_modules;
mod kills;
mod lab;
mod lab_plans;
mod lab_pmem;
mod ladder;
mod ladder_calls;
mod modules;
mod outputs;
mod planted_links;
mod profile;
mod random_sizes;
mod readme;
mod real_programs;
mod record;
mod reference_lab;
mod reproduce;
mod rollups;
mod run;
mod show;
mod show_budget;
mod show_calls;
mod show_fixture;
mod show_machine;
mod show_sides;
mod shown;
mod size;
mod status;
mod test_programs;
mod trend;
mod upgrade;
