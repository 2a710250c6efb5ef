//! Low descriptor numbers kept for what is passed to children. A child is cloned with the
//! daemon's own table (copying a table of 10,000 takes a millisecond) and cuts it off above the
//! slots as its first act, so what it needs must lie below the cut.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::io::{DupFlags, dup3, fcntl_dupfd_cloexec};

/// How many slots there are.
pub(super) const COUNT: usize = 13;

/// The reserved numbers; `/dev/null` while no child is being started.
#[derive(Debug)]
pub struct Slots {
    null: OwnedFd,
    slots: Vec<OwnedFd>,
}

impl Slots {
    /// Takes the lowest free numbers from 3 on. Call it before anything else is opened, so that
    /// they are 3 to 15; descriptors that the service manager passed may lie among them.
    pub fn reserve() -> io::Result<Self> {
        let null: OwnedFd = File::options()
            .read(true)
            .write(true)
            .open("/dev/null")?
            .into();
        let slots = (0..COUNT)
            .map(|_| Ok(fcntl_dupfd_cloexec(&null, 3)?))
            .collect::<io::Result<_>>()?;
        Ok(Self { null, slots })
    }

    /// The slot numbers, highest first.
    pub(super) fn numbers(&self) -> Vec<RawFd> {
        let mut numbers: Vec<RawFd> = self.slots.iter().map(AsRawFd::as_raw_fd).collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        numbers
    }

    /// The first number above all slots.
    pub(super) fn cut(&self) -> RawFd {
        self.numbers()
            .first()
            .copied()
            .unwrap_or(2)
            .saturating_add(1)
    }

    /// `/dev/null`, open for reading and writing.
    pub(super) fn null(&self) -> &OwnedFd {
        &self.null
    }

    /// Points one slot at what `source` points at.
    pub(super) fn fill(&mut self, number: RawFd, source: &OwnedFd) -> io::Result<()> {
        match self
            .slots
            .iter_mut()
            .find(|slot| slot.as_raw_fd() == number)
        {
            Some(slot) => Ok(dup3(source, slot, DupFlags::CLOEXEC)?),
            None => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Points every slot back at `/dev/null`.
    pub(super) fn clear(&mut self, numbers: impl Iterator<Item = RawFd>) -> io::Result<()> {
        for number in numbers {
            if let Some(slot) = self
                .slots
                .iter_mut()
                .find(|slot| slot.as_raw_fd() == number)
            {
                dup3(&self.null, slot, DupFlags::CLOEXEC)?;
            }
        }
        Ok(())
    }
}

/// Takes over a descriptor that whoever executed us left open, and moves it above the slots.
/// Call it before [`Slots::reserve`].
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number < 3 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "is not above 2",
        ));
    }
    // SAFETY: only looked at; a number that is not open is an error here.
    let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
    let moved = fcntl_dupfd_cloexec(borrowed, 64)?;
    // SAFETY: nothing in this process owns it: it came with the execution.
    drop(unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(number) });
    Ok(moved)
}
