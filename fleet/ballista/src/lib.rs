//! Versions and features of Ballista's scheduler and executor, which `make cluster` builds from their own sources, and which run as they
//! are: there is no code here, and none of ours in them.
