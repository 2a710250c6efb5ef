//! The language of the control channel (section 9): how frames are cut out of a stream of bytes,
//! and what they say. PURE; the supervisor owns the sockets, `docs/control-channel.md` tells
//! other languages.

pub mod codec;
pub mod frame;
pub mod queue;
pub mod request;
