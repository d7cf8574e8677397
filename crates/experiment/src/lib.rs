//! Plans, interleaved runs of their variants, and resuming them.
