//! Configuration in layers (section 14).
