//! Runs fio jobs: job language, engines, workers and latency histograms.
