//! Work on many recordings, as many at a time as there are processors.

use std::thread;

/// `of` each item, in the order of the items. A panic of `of` is the caller's. Where there is no room for a thread its share is done by
/// the caller's own.
pub fn map<T: Sync, U: Send>(items: &[T], of: impl Fn(&T) -> U + Sync) -> Vec<U> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(items.len()).max(1);
    let share = items.len().div_ceil(workers).max(1);
    let mut all = Vec::with_capacity(items.len());
    let of = &of;
    thread::scope(|scope| {
        let work = |items| move || share_of(items, of);
        let started: Vec<_> = items
            .chunks(share)
            .map(|items| (items, thread::Builder::new().name("analysis".to_owned()).spawn_scoped(scope, work(items))))
            .collect();
        for (items, worker) in started {
            match worker.map(thread::ScopedJoinHandle::join) {
                Ok(Ok(done)) => all.extend(done),
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                Err(_) => all.extend(share_of(items, of)),
            }
        }
    });
    all
}

fn share_of<T, U>(items: &[T], of: impl Fn(&T) -> U) -> Vec<U> {
    items.iter().map(of).collect()
}
