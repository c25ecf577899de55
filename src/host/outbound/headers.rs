//! The head of a request as it goes out.

use ::http::header::{
    CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHORIZATION, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use ::http::uri::Uri;
use ::http::{Method, Request};
use wasmkeep_supervisors::headers::is_hosts;
use wasmtime_wasi_http::Error;

use super::policy::{Destination, Host};

/// What is said between two ends of one connection, and so is not the guest's to say.
const OF_THE_CONNECTION: [HeaderName; 7] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

pub fn without_ours(mut headers: HeaderMap) -> HeaderMap {
    let ours: Vec<_> =
        headers.keys().filter(|name| is_hosts(name.as_str().as_bytes())).cloned().collect();
    for name in ours {
        headers.remove(name);
    }
    headers
}

/// Makes a request one that goes straight to its server, on a connection of its own.
pub fn outgoing<B>(mut request: Request<B>, to: &Destination) -> Result<Request<B>, Error> {
    if request.method() == Method::CONNECT {
        return Err(Error::HttpRequestMethodInvalid);
    }
    let mut headers = without_ours(std::mem::take(request.headers_mut()));
    for name in OF_THE_CONNECTION {
        headers.remove(name);
    }
    let host = HeaderValue::try_from(host(to)).map_err(|_| Error::HttpRequestUriInvalid)?;
    headers.insert(HOST, host);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    *request.headers_mut() = headers;
    *request.uri_mut() = origin_form(request.uri())?;
    Ok(request)
}

fn origin_form(uri: &Uri) -> Result<Uri, Error> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Uri::try_from(path).map_err(|_| Error::HttpRequestUriInvalid)
}

fn host(to: &Destination) -> String {
    let host = match &to.host {
        Host::Name(name) => name.clone(),
        Host::Literal(std::net::IpAddr::V6(address)) => format!("[{address}]"),
        Host::Literal(address) => address.to_string(),
    };
    match (to.port, to.tls) {
        (80, false) | (443, true) => host,
        (port, _) => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::outbound::policy::Policy;

    fn sent(uri: &str, headers: &[(&'static str, &str)]) -> Request<()> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).expect("a request");
        let (scheme, authority) = (request.uri().scheme_str(), request.uri().authority());
        let (scheme, authority) = (scheme.expect("a scheme"), authority.expect("an authority"));
        let to = Policy::default().destination(scheme, authority.as_str()).expect("allowed");
        outgoing(request, &to).expect("it can be sent")
    }

    #[test]
    fn a_request_says_where_it_goes_and_keeps_the_rest() {
        let request = sent("https://A.Example:8443/x?y=1", &[("x-own", "1"), ("host", "other")]);
        assert_eq!(request.uri(), "/x?y=1");
        assert_eq!(request.headers()[HOST], "a.example:8443");
        assert_eq!(request.headers()[CONNECTION], "close");
        assert_eq!(request.headers()["x-own"], "1");
        assert_eq!(sent("https://a.example:443", &[]).headers()[HOST], "a.example");
        assert_eq!(sent("http://a.example", &[]).uri(), "/");
        assert_eq!(sent("http://a.example?y", &[]).uri(), "/?y");
        assert_eq!(sent("http://0x08080808:81/", &[]).headers()[HOST], "8.8.8.8:81");
        assert_eq!(sent("http://[2A00::1]/", &[]).headers()[HOST], "[2a00::1]");
    }

    #[test]
    fn the_hosts_headers_and_the_connections_do_not_go_out() {
        let request = sent(
            "http://a.example/",
            &[
                ("x-wasmkeep-caller", "me"),
                ("X-WasmKeep-Evil", "1"),
                ("connection", "keep-alive"),
                ("keep-alive", "1"),
                ("proxy-connection", "1"),
                ("proxy-authorization", "1"),
                ("te", "trailers"),
                ("transfer-encoding", "chunked"),
                ("upgrade", "websocket"),
            ],
        );
        let mut names: Vec<_> = request.headers().keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["connection", "host"]);
    }
}
