//! The last net: a recording that makes pagelab panic must not end what is done with others.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// A panic on this thread is caught, and becomes an error: it need not be printed.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Lets the process print panics as before, but for those that are caught here.
fn print_no_caught_panics() {
    static ONCE: Once = Once::new();
    // The hook cannot be changed while a panic goes on; then this one is printed.
    if std::thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_CAUGHT.get() {
                print(panic);
            }
        }));
    });
}

/// Calls `f`, and gives the words of its panic instead of one.
pub(crate) fn caught<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    print_no_caught_panics();
    let before = IS_CAUGHT.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(f));
    IS_CAUGHT.set(before);
    outcome.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given").to_owned()
    })
}

/// Calls `f`, which works on one recording of several. If it panics, for which a recording has to be damaged in a way that
/// nothing found, the error says so and the others can be gone on with.
///
/// # Errors
/// In words.
pub fn isolated<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    caught(f).map_err(|words| {
        format!("pagelab gave up on it ({words}), which is a defect of pagelab: see whether it is whole with pagelab check, and report it")
    })
}
