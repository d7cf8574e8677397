//! The recording format: table registry, crash-safe writer, reader and checker.
