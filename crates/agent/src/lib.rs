//! Continuous recording of one host: what happened here, also when nobody was looking?
//!
//! The agent records short windows at a stated duty cycle, all the time; keeps the seconds before and after a trigger; holds its folder
//! within an age and a size; copies recordings into a store; and says what it costs. It records nothing itself: it starts `pagelab
//! record`, one process for each recording.
//!
//! | file | what |
//! |---|---|
//! | `keys.rs`, `config.rs` | what may be set, by option and by file; whether it fits together |
//! | `schedule.rs` | when windows are recorded: one in each period, at a time drawn for it |
//! | `flight.rs`, `trigger.rs` | the flight recorder, and what keeps its recording |
//! | `store.rs`, `journal.rs` | the folder, its names, what is removed; what is known after a restart |
//! | `upload.rs` | copies into a store |
//! | `usage.rs`, `cost.rs` | own CPU and BPF time; what is given up when it is too much |
//! | `metrics.rs`, `server.rs` | the page for Prometheus |
//! | `child.rs`, `signals.rs`, `notify.rs` | processes, signals, the service manager |
//! | `agent.rs` | the loop that holds it together |
//!
//! # What a kill does
//! Recorders are children: when the agent is killed the kernel sends them SIGTERM, and they close their recordings, which are
//! complete, only shorter. If they are killed as well, a recording has all but its last second (docs/recording.md). The next agent finds
//! the periods that are settled in `state.json` and records none twice; a recording that was cut stays, and is counted.
//!
//! # Why one process for each recording
//! A recording takes 30 to 60 MB while it is made, most of it when it is closed. In one process with the agent these would stay with it, in
//! pieces; a crash of a recorder would be one of the agent; and a kill could not be told from the end of a window.
//!
//! # Refusals
//! | refused | test |
//! |---|---|
//! | a configuration that others can write | `crates/cli/tests/agent.rs::a_configuration_that_others_can_write_is_refused`, `src/config.rs::a_file_that_others_write_is_refused` |
//! | an address that other machines reach, unless `--listen-to-others` | `crates/cli/tests/agent.rs::addresses_that_other_machines_reach_are_refused` |
//! | a folder of somebody else's, or one that others can write | `crates/cli/tests/agent.rs::folders_of_others_are_refused` |
//! | a folder that another agent has | `src/store.rs::one_agent_has_the_folder_and_the_second_is_told_which` |
//! | to remove what others put into the folder | `src/store.rs::retention_holds_on_a_real_folder_and_leaves_what_is_not_ours` |
//! | to use a name twice | `src/store.rs::names_are_never_used_twice` |
//! | a request for anything but the page of metrics | `src/server.rs::the_page_is_served_and_nothing_else` |
//! | clients that are silent, slow or say too much | `src/server.rs::clients_that_are_slow_or_say_too_much_are_left`, `src/server.rs::clients_that_are_silent_delay_nobody` |
//! | a trigger's command that hangs | `src/trigger.rs::a_command_that_hangs_is_ended` |

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod agent;
mod child;
mod config;
mod cost;
mod error;
mod flight;
mod journal;
mod keys;
mod metrics;
mod notify;
mod schedule;
mod server;
mod signals;
mod store;
mod trigger;
mod upload;
mod usage;

pub use agent::{AgentError, run};
pub use child::Programs;
pub use config::{Config, Flight, Target};
pub use error::ConfigError;
pub use keys::{Keys, Listen, Percent, Seconds, Size};
pub use store::StoreError;
pub use trigger::{Psi, Trigger, TriggerError};
