//! The bus: peer to peer and on a bus daemon.
