//! Joins faults to mappings by (mm_id, addr, ts).
