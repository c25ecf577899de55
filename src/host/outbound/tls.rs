//! HTTPS: the certificate is checked against the host of the URL, and must come from Mozilla's
//! authorities or from those the operator added.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use wasmtime_wasi_http::Error;

use super::failure::in_the_handshake;
use super::policy::Host;

#[derive(Debug, Error)]
pub enum OutboundError {
    #[error("--outbound-ca {path} cannot be read: {cause}")]
    Unreadable { path: PathBuf, cause: io::Error },
    #[error("--outbound-ca {path} holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)")]
    NoCertificate { path: PathBuf },
    #[error("--outbound-ca {path} holds a certificate that cannot be used: {cause}")]
    WrongCertificate { path: PathBuf, cause: String },
    #[error("TLS for outbound requests did not start: {0}")]
    Tls(rustls::Error),
}

/// Makes connections into TLS ones.
pub struct Tls(TlsConnector);

impl Tls {
    /// Trusts Mozilla's authorities and all certificates of these files.
    pub fn trusting(ca_files: &[PathBuf]) -> Result<Self, OutboundError> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        for path in ca_files {
            add(&mut roots, path)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(OutboundError::Tls)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    pub async fn handshake<S>(&self, host: &Host, stream: S) -> Result<TlsStream<S>, Error>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = match host {
            Host::Literal(address) => ServerName::from(*address),
            Host::Name(name) => {
                let name = name.strip_suffix('.').unwrap_or(name).to_owned();
                ServerName::try_from(name).map_err(|_| Error::HttpRequestUriInvalid)?
            }
        };
        self.0.connect(name, stream).await.map_err(|error| in_the_handshake(&error))
    }
}

fn add(roots: &mut RootCertStore, path: &Path) -> Result<(), OutboundError> {
    let pem = fs::read(path)
        .map_err(|cause| OutboundError::Unreadable { path: path.to_owned(), cause })?;
    let wrong = |cause: String| OutboundError::WrongCertificate { path: path.to_owned(), cause };
    let before = roots.len();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.len() == before {
        return Err(OutboundError::NoCertificate { path: path.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(content: &[u8]) -> String {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), content).expect("write it");
        let error = Tls::trusting(&[file.path().to_owned()]).err().expect("refused").to_string();
        assert!(error.contains(&file.path().display().to_string()), "{error}");
        error
    }

    #[test]
    fn a_file_of_authorities_that_is_none_is_refused_by_name() {
        assert!(refused(b"").contains("no certificate"));
        assert!(refused(b"not PEM").contains("no certificate"));
        let wrong = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(refused(wrong).contains("cannot be used"));
        let missing = Tls::trusting(&["no/such/file.pem".into()]).err().expect("refused");
        assert!(missing.to_string().contains("no/such/file.pem"));
    }

    #[test]
    fn a_file_may_hold_several_authorities() {
        let authority = || {
            let key = rcgen::KeyPair::generate().expect("a key");
            let params = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
            params.self_signed(&key).expect("a certificate").pem()
        };
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), authority() + &authority()).expect("write it");
        let mut roots = RootCertStore::empty();
        add(&mut roots, file.path()).expect("two certificates");
        assert_eq!(roots.len(), 2);
    }
}
