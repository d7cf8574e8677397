//! One recorded run: target, probes, writer and the supervision of children.
