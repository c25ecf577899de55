//! Who this node is to other nodes: a key drawn at its start, in a certificate that only carries it.
//!
//! No authority signs anything. A node's lease in the bucket says the SHA-256 of its key, so who may
//! write to the bucket decides whom nodes trust; each side of a connection proves its key in the TLS
//! handshake, and the other compares the hash. The key never leaves the process and ends with it.
//! What a peer whose key counts may do is not decided here (`edge/cluster`).

mod verify;
mod watch;

use std::fmt;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{NoServerSessionStorage, ParsedCertificate};
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};
use sha2::{Digest, Sha256};
use thiserror::Error;
use wasmkeep_supervisors::ports::PeerKey;

use self::verify::{AnyKey, OneKey};
pub use self::watch::watch;

/// What the certificate says and nobody reads.
const NAME: &str = "wasmkeep-node";

#[derive(Debug, Error)]
pub enum IdentityError {
    #[error("the node's key was not drawn: {0}")]
    NotDrawn(rcgen::Error),
    #[error("TLS between nodes did not start: {0}")]
    Tls(rustls::Error),
}

/// A node's key, and the certificate it shows.
pub struct Identity {
    key: PeerKey,
    certificate: CertificateDer<'static>,
    private: PrivatePkcs8KeyDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl Identity {
    /// Draws a key: once for each start of a node.
    pub fn draw() -> Result<Self, IdentityError> {
        let pair =
            rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).map_err(IdentityError::NotDrawn)?;
        let parameters = rcgen::CertificateParams::new(vec![NAME.to_owned()]);
        let certificate = parameters
            .and_then(|parameters| parameters.self_signed(&pair))
            .map_err(IdentityError::NotDrawn)?;
        let certificate = certificate.der().clone();
        let key = key_of(&certificate).map_err(IdentityError::Tls)?;
        let private = PrivatePkcs8KeyDer::from(pair.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Ok(Self { key, certificate, private, provider })
    }

    /// What the lease says of it.
    pub fn key(&self) -> PeerKey {
        self.key
    }

    /// How this node connects to one whose lease says `expected`.
    pub fn to_peer(&self, expected: PeerKey) -> Result<ClientConfig, IdentityError> {
        let verifier = OneKey { expected, provider: Arc::clone(&self.provider) };
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(IdentityError::Tls)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_auth_cert(vec![self.certificate.clone()], self.private())
            .map_err(IdentityError::Tls)?;
        // A resumed connection would prove no key anew.
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(config)
    }

    /// How this node takes connections: from whoever proves a key. Whose it is, is asked for each
    /// request.
    pub fn of_peers(&self) -> Result<ServerConfig, IdentityError> {
        let verifier = AnyKey { provider: Arc::clone(&self.provider) };
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(IdentityError::Tls)?
            .with_client_cert_verifier(Arc::new(verifier))
            .with_single_cert(vec![self.certificate.clone()], self.private())
            .map_err(IdentityError::Tls)?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    fn private(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(self.private.clone_key())
    }
}

/// Without the private key.
impl fmt::Debug for Identity {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Identity(")?;
        self.key.iter().try_for_each(|byte| write!(to, "{byte:02x}"))?;
        to.write_str(")")
    }
}

/// The hash of the key that a certificate carries.
pub fn key_of(certificate: &CertificateDer<'_>) -> Result<PeerKey, rustls::Error> {
    let parsed = ParsedCertificate::try_from(certificate)?;
    Ok(Sha256::digest(parsed.subject_public_key_info()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_start_has_a_key_of_its_own_and_shows_no_private_one() {
        let (one, other) = (Identity::draw().expect("a key"), Identity::draw().expect("a key"));
        assert_ne!(one.key(), other.key());
        assert_eq!(key_of(&one.certificate), Ok(one.key()));
        let shown = format!("{one:?}");
        let private: String =
            one.private.secret_pkcs8_der().iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(shown.len() < 90 && !private.contains(&shown[9..shown.len() - 1]), "{shown}");
    }

    #[test]
    fn a_certificate_that_is_none_has_no_key() {
        key_of(&CertificateDer::from(b"no certificate".to_vec())).expect_err("no certificate");
        key_of(&CertificateDer::from(Vec::new())).expect_err("no certificate");
    }
}
