//! One message in the way of sd_notify(3): bytes to what they say. PURE.

#![forbid(unsafe_code)]

use std::time::Duration;

/// What a worker says of itself. Assignments that mean nothing here are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// `READY=1`, or `RELOADING=1`.
    pub ready: bool,
    /// `STOPPING=1`: it ends by itself.
    pub stopping: bool,
    /// `WATCHDOG=1`: it is there.
    pub alive: bool,
    /// `WATCHDOG=trigger`: it says of itself that it hangs.
    pub hangs: bool,
    /// `STATUS=`: what it does. Empty text takes the last one back.
    pub status: Option<String>,
    /// `EXTEND_TIMEOUT_USEC=`: it needs so long from now.
    pub extend: Option<Duration>,
}

impl Message {
    /// It got on with something, which being alive alone is not.
    pub fn is_progress(&self) -> bool {
        self.ready || self.stopping || self.status.is_some() || self.extend.is_some()
    }
}

/// Reads a message: lines of `NAME=VALUE`, of which the first of a name counts. `None`: it is
/// no text of that kind (a NUL inside it).
pub fn parse(bytes: &[u8]) -> Option<Message> {
    // Senders in C like to send the NUL at the end, too.
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.contains(&0) {
        return None;
    }
    let mut message = Message::default();
    let mut seen: Vec<&[u8]> = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some(at) = line.iter().position(|byte| *byte == b'=') else {
            continue;
        };
        let (name, value) = (line.get(..at)?, line.get(at + 1..)?);
        if seen.contains(&name) {
            continue;
        }
        if take(&mut message, name, value) {
            seen.push(name);
        }
    }
    Some(message)
}

/// `false`: a name that means nothing here.
fn take(message: &mut Message, name: &[u8], value: &[u8]) -> bool {
    match name {
        b"READY" | b"RELOADING" => message.ready |= value == b"1",
        b"STOPPING" => message.stopping = value == b"1",
        b"WATCHDOG" => {
            message.alive = value == b"1";
            message.hangs = value == b"trigger";
        }
        // Text that is no UTF-8 is dropped, as systemd does.
        b"STATUS" => message.status = String::from_utf8(value.to_vec()).ok(),
        b"EXTEND_TIMEOUT_USEC" => message.extend = microseconds(value),
        _ => return false,
    }
    true
}

fn microseconds(value: &[u8]) -> Option<Duration> {
    if !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let micros = std::str::from_utf8(value).ok()?.parse().ok()?;
    Some(Duration::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(text: &str) -> Message {
        parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_assignments_mean_what_they_mean_to_systemd() {
        let usual = Message::default;
        for (text, message) in [
            (
                "READY=1",
                Message {
                    ready: true,
                    ..usual()
                },
            ),
            ("READY=0", usual()),
            (
                "STOPPING=1\n",
                Message {
                    stopping: true,
                    ..usual()
                },
            ),
            (
                "WATCHDOG=1",
                Message {
                    alive: true,
                    ..usual()
                },
            ),
            (
                "WATCHDOG=trigger",
                Message {
                    hangs: true,
                    ..usual()
                },
            ),
            (
                "STATUS=a = b",
                Message {
                    status: Some("a = b".into()),
                    ..usual()
                },
            ),
            (
                "STATUS=",
                Message {
                    status: Some(String::new()),
                    ..usual()
                },
            ),
            (
                "STATUS=1\nSTATUS=2",
                Message {
                    status: Some("1".into()),
                    ..usual()
                },
            ),
            (
                "EXTEND_TIMEOUT_USEC=1500000\0",
                Message {
                    extend: Some(Duration::from_millis(1500)),
                    ..usual()
                },
            ),
            ("EXTEND_TIMEOUT_USEC=-1", usual()),
            ("EXTEND_TIMEOUT_USEC=+1", usual()),
            ("EXTEND_TIMEOUT_USEC=99999999999999999999", usual()),
            ("MAINPID=1\nFDSTORE=1\nBARRIER=1\nX_Y=z\n\nno line", usual()),
        ] {
            assert_eq!(said(text), message, "{text:?}");
        }
        assert_eq!(parse(b"STATUS=\xff").unwrap(), usual());
        assert_eq!(parse(b"READY=1\0STATUS=x"), None);
    }

    #[test]
    fn being_alive_is_no_progress() {
        assert!(!said("WATCHDOG=1").is_progress());
        assert!(!said("BARRIER=1").is_progress());
        assert!(said("WATCHDOG=1\nSTATUS=x").is_progress());
    }

    proptest! {
        #[test]
        fn whatever_is_sent_nothing_breaks(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn what_was_said_is_read_in_any_order_and_among_any_noise(
            status in "[^\0\n]{0,64}",
            micros in any::<u64>(),
            mut lines in Just(vec![0_usize, 1, 2, 3, 4]).prop_shuffle(),
            noise in "[A-Z]{0,8}[^\0\n=]{0,16}",
        ) {
            let text = [
                format!("STATUS={status}"),
                format!("EXTEND_TIMEOUT_USEC={micros}"),
                "READY=1".to_owned(),
                "WATCHDOG=1".to_owned(),
                noise,
            ];
            let all: Vec<&str> = lines.drain(..).filter_map(|n| text.get(n)).map(String::as_str).collect();
            let message = said(&all.join("\n"));
            prop_assert_eq!(message.status, Some(status));
            prop_assert_eq!(message.extend, Some(Duration::from_micros(micros)));
            prop_assert!(message.ready && message.alive && !message.stopping);
        }
    }
}
