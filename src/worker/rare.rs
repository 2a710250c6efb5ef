//! A group of fields that few rows use: a pointer's room where it is at its default. A roll has
//! 100,000 rows, most of them plain and finished.

use std::ops::Deref;
use std::sync::LazyLock;

use super::spec::{Ending, Limits, Timeouts};

/// Reads as a `T`; takes a `T`'s room only where it differs from the default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rare<T>(Option<Box<T>>);

/// What can be [`Rare`].
pub trait Plain: Default + PartialEq + 'static {
    /// The default, shared by all rows that have it.
    fn plain() -> &'static Self;
}

macro_rules! plain {
    ($($Type:ty)*) => {$(
        impl Plain for $Type {
            fn plain() -> &'static Self {
                static PLAIN: LazyLock<$Type> = LazyLock::new(<$Type>::default);
                &PLAIN
            }
        }
    )*};
}

plain! { Limits Timeouts Ending String }

impl<T: Plain> From<T> for Rare<T> {
    fn from(value: T) -> Self {
        Self((value != *T::plain()).then(|| Box::new(value)))
    }
}

impl<T: Plain> Deref for Rare<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or_else(|| T::plain())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_takes_no_room_and_reads_as_itself() {
        let plain = Rare::from(Limits::default());
        assert!(plain.0.is_none());
        assert_eq!(*plain, Limits::default());
        let limits = Limits {
            nice: Some(5),
            ..Limits::default()
        };
        assert_eq!(*Rare::from(limits), limits);
    }
}
