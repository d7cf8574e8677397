//! Reading ahead: a thread decodes the next batches while the caller works on one.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

/// Items that may be ready before they are asked for.
const READY: usize = 2;

/// Items of an iterator, which from the third on runs on a thread of its own: what ends before that is not worth a thread.
pub(crate) struct Ahead<I: Iterator> {
    taken: usize,
    here: Option<I>,
    there: Option<(Receiver<I::Item>, JoinHandle<()>)>,
}

impl<I: Iterator> Ahead<I> {
    /// Takes the iterator over.
    pub(crate) fn new(items: I) -> Self {
        Self { taken: 0, here: Some(items), there: None }
    }
}

impl<I> Ahead<I>
where
    I: Iterator + Send + 'static,
    I::Item: Send,
{
    /// Lets a thread go on. Without one, which a host short of them refuses, the caller goes on itself.
    fn hand_over(items: I) -> Result<(Receiver<I::Item>, JoinHandle<()>), I> {
        let (sender, receiver) = sync_channel(READY);
        let (give, take) = sync_channel::<I>(1);
        let decode = move || {
            let Ok(items) = take.recv() else { return };
            for item in items {
                // Nobody asks any more.
                if sender.send(item).is_err() {
                    break;
                }
            }
        };
        match std::thread::Builder::new().name("decode".to_owned()).spawn(decode) {
            Ok(thread) => match give.send(items) {
                Ok(()) => Ok((receiver, thread)),
                Err(unsent) => Err(unsent.0),
            },
            Err(_) => Err(items),
        }
    }
}

impl<I> Iterator for Ahead<I>
where
    I: Iterator + Send + 'static,
    I::Item: Send,
{
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        if self.taken == READY
            && let Some(items) = self.here.take()
        {
            match Self::hand_over(items) {
                Ok(there) => self.there = Some(there),
                Err(items) => self.here = Some(items),
            }
        }
        self.taken += 1;
        match (&mut self.here, &mut self.there) {
            (Some(items), _) => items.next(),
            (None, Some((items, _))) => items.recv().ok().or_else(|| self.ended()),
            (None, None) => None,
        }
    }
}

impl<I: Iterator> Ahead<I> {
    /// The thread has ended: after the last item, or in a panic, which is the caller's then.
    fn ended(&mut self) -> Option<I::Item> {
        let (_, thread) = self.there.take()?;
        match thread.join() {
            Ok(()) => None,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl<I: Iterator> Drop for Ahead<I> {
    /// The thread must not outlive what it reads.
    fn drop(&mut self) {
        if let Some((items, thread)) = self.there.take() {
            drop(items);
            // Items that nobody took: a panic over them changes no answer.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_items_come_in_their_order() {
        for n in [0, 1, 2, 3, 4, 100] {
            assert_eq!(Ahead::new(0..n).collect::<Vec<_>>(), (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn no_more_than_asked_for_is_made_far_ahead() {
        let made = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = made.clone();
        let items = std::iter::repeat_with(move || count.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
        // Some wait, one is at the door, and with the thread's end all is dropped.
        assert_eq!(Ahead::new(items).take(10).count(), 10);
        let made = made.load(std::sync::atomic::Ordering::SeqCst);
        assert!((10..=10 + READY + 1).contains(&made), "{made}");
    }

    #[test]
    #[should_panic(expected = "item 50")]
    fn a_panic_of_the_thread_is_the_callers() {
        let items = (0..100).inspect(|item| assert!(*item != 50, "item {item}"));
        assert_eq!(Ahead::new(items).count(), 100);
    }
}
