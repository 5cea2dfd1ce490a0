//! TLS of the server's own side: its certificates, read from files or made here, renewed while it runs, and handshakes.
//!
//! Promise: an unusable certificate never replaces a usable one; a connection has [`HANDSHAKE_TIME_MAX`] for its handshake,
//! and handshakes under way are bounded. Not here: the protocol inside (`http`), the pace of a stream (the data plane; its bytes
//! are sealed as they come out of a pipe). See decisions/0068.

mod certificates;
mod challenges;
mod handshakes;
mod pair;
mod self_signed;

pub use certificates::{
    CertificateChange, CertificateSource, CertificateState, Certificates, LOOK_PERIOD, ReadCertificates,
};
pub use challenges::Challenges;
pub use handshakes::{Acceptor, HANDSHAKE_TIME_MAX, Handshake, HandshakeError, TlsStream};
pub use pair::{PairError, PairFiles};
pub use self_signed::write_private;
