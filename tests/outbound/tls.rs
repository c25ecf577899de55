//! HTTPS: who is trusted, and for which host.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tempfile::NamedTempFile;

use super::fetch;
use crate::support::{Node, Server, component, wasmkeep};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("an authority"))
    }

    /// Answers `hello` as this host.
    fn server_of(&self, host: &str) -> Server {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![host.to_owned()]).expect("parameters");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a private key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .expect("a certificate and its key");
        Server::with_tls(config, |connection| {
            connection.say("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")
        })
    }

    fn file(&self) -> NamedTempFile {
        let file = NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), self.0.pem()).expect("write it");
        file
    }
}

fn url(host: &str, server: &Server) -> String {
    format!("https://{host}:{}/", server.address.port())
}

#[test]
fn a_private_authority_is_trusted_when_it_is_given() {
    let (ours, other) = (Authority::new(), Authority::new());
    let (our_file, other_file) = (ours.file(), other.file());
    let named = ours.server_of("localhost");
    let numbered = other.server_of("127.0.0.1");

    let node = Node::probe()
        .flag("--allow-outbound", "127.0.0.0/8")
        .flag("--outbound-ca", our_file.path())
        .flag("--outbound-ca", other_file.path())
        .start();
    let actor = node.actor("probe/a");
    assert_eq!(fetch(&actor, &url("localhost", &named))["body"], "hello");
    assert_eq!(
        named.requests()[0].header("host"),
        Some(&*format!("localhost:{}", named.address.port()))
    );
    assert_eq!(fetch(&actor, &url("127.0.0.1", &numbered))["body"], "hello");
    assert_eq!(fetch(&actor, &url("127.1", &numbered))["body"], "hello");
    // The right authority, another host.
    let wrong_host = "TLS-certificate-error";
    assert_eq!(fetch(&actor, &url("127.0.0.1", &named))["error"], wrong_host);
    assert_eq!(fetch(&actor, &url("localhost", &numbered))["error"], wrong_host);
    // Not TLS at all.
    let plain = Server::saying("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
    let answer = fetch(&actor, &url("127.0.0.1", &plain));
    assert!(answer["status"].is_null() && answer["error"].is_string(), "{answer}");

    let node = super::open_node();
    let unknown = fetch(&node.actor("probe/a"), &url("localhost", &named));
    assert_eq!(unknown["error"], "TLS-certificate-error");
    assert_eq!(named.requests().len(), 1, "nothing was said to whom is not trusted");
}

#[test]
fn a_file_of_authorities_that_cannot_be_used_stops_the_start_and_is_named() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("ca.pem");
    let start = || {
        let mut actor = std::ffi::OsString::from("probe=");
        actor.push(component("guest-probe.wasm"));
        let run = wasmkeep()
            .args(["serve", "--listen", "127.0.0.1:0", "--outbound-ca"])
            .arg(&file)
            .arg("--actor")
            .arg(actor)
            .current_dir(home.path())
            .output()
            .expect("run wasmkeep");
        assert_eq!(run.status.code(), Some(1));
        String::from_utf8_lossy(&run.stderr).into_owned()
    };
    let missing = start();
    assert!(missing.contains("--outbound-ca") && missing.contains("ca.pem"), "{missing}");
    std::fs::write(&file, "not a certificate").expect("write it");
    let wrong = start();
    assert!(wrong.contains("ca.pem") && wrong.contains("PEM"), "{wrong}");
}
