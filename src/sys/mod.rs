//! System calls behind one door.
