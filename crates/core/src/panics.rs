//! Turns panics into error messages.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// `Some` while this thread is inside [`catch_panic`]: the message of the panic, if any.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `work` and catches a panic, without printing it.
///
/// Meant for external code that panics on bad input. The first call installs a panic hook that forwards panics outside
/// of `catch_panic` to the previous hook.
///
/// # Errors
/// The message and location of the panic.
pub fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |info| {
            let silent = CAUGHT.with_borrow_mut(|caught| match caught {
                Some(message) => {
                    *message = info.payload_as_str().unwrap_or("unknown panic").to_owned();
                    if let Some(place) = info.location() {
                        let file = place.file().rsplit(['/', '\\']).next().unwrap_or_default();
                        *message += &format!(" ({file}:{})", place.line());
                    }
                    true
                }
                None => false,
            });
            if !silent {
                previous(info);
            }
        }));
    });
    let outer = CAUGHT.replace(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(work));
    let message = CAUGHT.replace(outer).unwrap_or_default();
    result.map_err(|_| message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_message_also_when_nested() {
        assert_eq!(catch_panic(|| 3), Ok(3));
        let nested = catch_panic(|| {
            let inner = catch_panic(|| panic!("inner")).unwrap_err();
            assert!(inner.starts_with("inner (panics.rs:"), "{inner}");
            panic!("outer {}", 1)
        });
        let message: String = nested.map(|()| String::new()).unwrap_err();
        assert!(message.starts_with("outer 1 (panics.rs:"), "{message}");
    }
}
