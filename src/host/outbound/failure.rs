//! What went wrong, in the words `wasi:http` has for it.

use std::error::Error as StdError;
use std::io;

use wasmtime_wasi_http::Error;

use super::policy::Denied;

/// Why a request has no answer.
#[derive(Debug)]
pub struct Failure {
    pub code: Error,
    /// Refused by policy, which is counted apart; the guest learns no more than `code` says.
    pub denied: bool,
}

impl Failure {
    pub fn failed(code: Error) -> Self {
        Self { code, denied: false }
    }

    pub fn denied(code: Error) -> Self {
        Self { code, denied: true }
    }
}

impl From<Denied> for Failure {
    fn from(denied: Denied) -> Self {
        Self::denied(match denied {
            Denied::Url => Error::HttpRequestUriInvalid,
            Denied::Port => Error::HttpRequestDenied,
            Denied::Address => Error::DestinationIpProhibited,
        })
    }
}

/// A failure before the answer's head was there.
pub fn before_the_answer(error: &hyper::Error) -> Error {
    if let Some(code) = of_tls(error).or_else(|| of_the_guest(error)) {
        return code;
    }
    if error.is_parse_too_large() {
        return Error::HttpResponseHeaderSectionSize(None);
    }
    if error.is_parse() {
        return Error::HttpProtocolError;
    }
    Error::ConnectionTerminated
}

/// A failure while the answer's body was read.
pub fn in_the_body(error: &hyper::Error) -> Error {
    if let Some(code) = of_tls(error).or_else(|| of_the_guest(error)) {
        return code;
    }
    let malformed = source::<io::Error>(error).is_some_and(|error| {
        matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData)
    });
    if malformed { Error::HttpProtocolError } else { Error::HttpResponseIncomplete }
}

/// A failed handshake.
pub fn in_the_handshake(error: &io::Error) -> Error {
    match error.get_ref().and_then(|error| error.downcast_ref()) {
        Some(error) => tls_code(error),
        None => Error::ConnectionTerminated,
    }
}

fn of_tls(error: &hyper::Error) -> Option<Error> {
    let error: &io::Error = source(error)?;
    error.get_ref()?.downcast_ref().map(tls_code)
}

fn tls_code(error: &rustls::Error) -> Error {
    match error {
        rustls::Error::InvalidCertificate(_) => Error::TlsCertificateError,
        rustls::Error::AlertReceived(alert) => Error::TlsAlertReceived {
            alert_id: Some(u8::from(*alert)),
            alert_message: Some(format!("{alert:?}")),
        },
        _ => Error::TlsProtocolError,
    }
}

/// The guest ended its own body before it was whole.
fn of_the_guest(error: &hyper::Error) -> Option<Error> {
    source::<Error>(error).map(|error| match error {
        Error::HttpRequestBodySize(size) => Error::HttpRequestBodySize(*size),
        _ => Error::HttpProtocolError,
    })
}

fn source<E: StdError + 'static>(error: &hyper::Error) -> Option<&E> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}
