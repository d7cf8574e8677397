//! Work on many recordings, as many at a time as there are processors.

use std::thread;

/// `of` each item, in the order of the items. A panic of `of` is the caller's.
pub fn map<T: Sync, U: Send>(items: &[T], of: impl Fn(&T) -> U + Sync) -> Vec<U> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(items.len()).max(1);
    let share = items.len().div_ceil(workers).max(1);
    let mut all = Vec::with_capacity(items.len());
    let of = &of;
    thread::scope(|scope| {
        let started: Vec<_> =
            items.chunks(share).map(|items| scope.spawn(move || items.iter().map(of).collect::<Vec<_>>())).collect();
        for worker in started {
            match worker.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    all
}
