//! `wasmkeep bucket check`, against a store that is a process of its own.

use std::fs;
use std::process::Command;
use std::sync::Arc;

use wasmkeep_testbucket::{
    ACCESS_KEY, BUCKET, Dialect, Fault, Operation, SECRET_KEY, TestBucket, What,
};

use crate::support::{Server, run, wasmkeep};

/// `wasmkeep bucket check` of a URL, with nothing about buckets in its environment.
fn check(url: &str) -> Command {
    let mut command = wasmkeep();
    for (name, _) in std::env::vars_os() {
        let lower = name.to_string_lossy().to_lowercase();
        if lower.starts_with("aws_") || lower.ends_with("_proxy") {
            command.env_remove(&name);
        }
    }
    command.env("HOME", "/nonexistent").args(["bucket", "check", url]);
    command
}

/// The same, of the store's bucket and with what opens it.
fn check_of(store: &TestBucket) -> Command {
    let mut command = check(&format!("s3://{BUCKET}/some/prefix"));
    command
        .args(["--endpoint", store.endpoint()])
        .envs([("AWS_ACCESS_KEY_ID", ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", SECRET_KEY)]);
    command
}

/// Runs a check that must end so, and say all of that, and never the secret.
#[track_caller]
fn ends(command: &mut Command, code: i32, parts: &[&str]) {
    let (exit, said) = run(command);
    assert_eq!(exit, Some(code), "{said}");
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in\n{said}");
    }
    assert!(!said.contains(SECRET_KEY) && !said.contains("a-wrong-secret"), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn a_bucket_that_is_fit_is_told_with_what_was_found() {
    for (dialect, etags) in [(Dialect::Aws, "in quotes"), (Dialect::Ceph, "without quotes")] {
        let store = TestBucket::start(dialect);
        let place = format!("s3://{BUCKET}/some/prefix at {}", store.endpoint());
        let parts = [&place, "is fit for a cluster", etags, "latency", "put ", "list ", " ms"];
        ends(&mut check_of(&store), 0, &parts);
        assert!(store.keys().is_empty(), "{dialect}: {:?}", store.keys());
    }
}

#[test]
fn a_bucket_that_is_not_fit_is_refused_with_the_condition_and_what_to_do() {
    for (dialect, condition) in [
        (Dialect::IgnoresAbsent, "If-None-Match: * is ignored"),
        (Dialect::IgnoresMatch, "If-Match is ignored"),
        (Dialect::WritesWhenMissing, "If-Match writes where there is no object"),
        (Dialect::WeakEtags, "ETags are weak"),
        (Dialect::NoConditions, "conditional writes are refused"),
        (Dialect::NeverMatches, "If-Match never holds"),
    ] {
        let store = TestBucket::start(dialect);
        let parts = [store.endpoint(), "is not fit for a cluster", condition, "docs/bucket.md"];
        ends(&mut check_of(&store), 3, &parts);
        assert!(store.keys().is_empty(), "{dialect}: {:?}", store.keys());
    }
}

#[test]
fn wrong_credentials_are_told_apart() {
    let store = TestBucket::start(Dialect::Aws);
    let mut wrong = check_of(&store);
    wrong.env("AWS_ACCESS_KEY_ID", "nobody");
    ends(&mut wrong, 1, &["InvalidAccessKeyId", "nobody", "AWS_ACCESS_KEY_ID"]);
    let mut wrong = check_of(&store);
    wrong.env("AWS_SECRET_ACCESS_KEY", "a-wrong-secret");
    ends(&mut wrong, 1, &["SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY"]);
    store.fails(&Fault::always(Operation::Delete, What::Status(403)));
    ends(&mut check_of(&store), 1, &["to delete an object", "AccessDenied", "s3:DeleteObject"]);
}

#[test]
fn a_bucket_that_is_not_there_is_told() {
    let store = TestBucket::start(Dialect::Aws);
    let mut command = check("s3://another-bucket");
    command.args(["--endpoint", store.endpoint()]);
    command.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
    ends(&mut command, 1, &["NoSuchBucket", "Create the bucket another-bucket"]);
}

#[test]
fn an_endpoint_that_is_not_there_is_told() {
    let store = TestBucket::start(Dialect::Aws);
    let endpoint = store.endpoint().to_owned();
    let mut command = check_of(&store);
    drop(store);
    ends(&mut command, 1, &["was not tried out", "refused", &endpoint, "--endpoint"]);
}

#[test]
fn what_answers_but_is_no_store_is_told() {
    let server = Server::saying(
        "HTTP/1.1 404 Not Found\r\ncontent-length: 9\r\nconnection: close\r\n\r\nnot found",
    );
    let mut command = check(&format!("s3://{BUCKET}"));
    command.args(["--endpoint", &format!("http://{}", server.address)]);
    command.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
    ends(&mut command, 1, &["to the end", "404", "check that --endpoint speaks S3"]);
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_told() {
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_no_client_auth()
        .with_single_cert(vec![key.cert.der().clone()], key.signing_key.into())
        .expect("a certificate and its key");
    let server = Server::with_tls(config, |_| Ok(()));
    let mut command = check(&format!("s3://{BUCKET}"));
    command.args(["--endpoint", &format!("https://localhost:{}", server.address.port())]);
    command.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
    ends(&mut command, 1, &["certificate", "public authority"]);
    assert!(server.requests().is_empty(), "something was sent all the same");
}

#[test]
fn missing_credentials_are_told_before_anything_is_sent() {
    let store = TestBucket::start(Dialect::Aws);
    let mut missing = check(&format!("s3://{BUCKET}"));
    missing.args(["--endpoint", store.endpoint()]);
    ends(&mut missing, 1, &["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", ".aws/credentials"]);
    let mut half = check_of(&store);
    half.env_remove("AWS_SECRET_ACCESS_KEY");
    ends(&mut half, 1, &["AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not"]);
    assert_eq!(store.counts().put, 0);
}

#[test]
fn a_profile_of_a_file_opens_a_bucket() {
    let store = TestBucket::start(Dialect::Aws);
    let home = tempfile::tempdir().expect("make a directory");
    fs::create_dir(home.path().join(".aws")).expect("make a directory");
    let file = home.path().join(".aws/credentials");
    let text = format!(
        "[default]\naws_access_key_id = nobody\naws_secret_access_key = a-wrong-secret\n\
         [cluster]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
    );
    fs::write(&file, text).expect("write a file");
    let of = |profile: &str| {
        let mut command = check(&format!("s3://{BUCKET}"));
        command.args(["--endpoint", store.endpoint()]);
        command.env("HOME", home.path()).env("AWS_PROFILE", profile);
        command
    };
    ends(&mut of("cluster"), 0, &["is fit"]);
    ends(&mut of(""), 1, &["InvalidAccessKeyId", "AWS_PROFILE"]);
    ends(&mut of("none"), 1, &["no profile [none]", &file.to_string_lossy()]);
}

#[test]
fn what_cannot_be_meant_is_named() {
    for (arguments, named) in [
        (&["https://bucket"][..], "s3://BUCKET"),
        (&["s3://Bucket"], "no bucket's name"),
        (&["s3://bucket/../x"], "no prefix"),
        (&["s3://bucket", "--endpoint", "localhost:9000"], "https://HOST"),
        (&["s3://bucket", "--addressing", "dns"], "--addressing"),
        (&[], "s3://BUCKET"),
    ] {
        let mut command = wasmkeep();
        command.args(["bucket", "check"]).args(arguments);
        ends(&mut command, 2, &[named]);
    }
    let no_region = &mut check("s3://bucket");
    ends(no_region, 1, &["--region", "AWS_REGION", "--endpoint"]);
}

#[test]
fn help_says_what_is_needed() {
    let mut command = wasmkeep();
    command.args(["bucket", "check", "--help"]);
    let parts =
        ["--endpoint", "--region", "--addressing", "AWS_PROFILE", "WASMKEEP_BUCKET", "Exit codes"];
    ends(&mut command, 0, &parts);
}
