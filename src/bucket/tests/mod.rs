//! The shell over the store of `testbucket`, which runs as a process of its own.

mod contract;
mod faults;
mod probing;

use std::sync::Arc;

use wasmkeep_supervisors::metrics::Metrics;
use wasmkeep_testbucket::{ACCESS_KEY, BUCKET, SECRET_KEY, TestBucket};

use super::*;

/// How to reach a store, with a prefix.
fn settings(store: &TestBucket) -> BucketSettings {
    BucketSettings {
        url: format!("s3://{BUCKET}/some/prefix").parse().expect("a URL"),
        endpoint: store.endpoint().parse().expect("an endpoint"),
        region: "us-east-1".into(),
        addressing: Addressing::Path,
        credentials: Credentials {
            access_key: ACCESS_KEY.into(),
            secret_key: SECRET_KEY.into(),
            session_token: None,
        },
    }
}

fn connect(settings: &BucketSettings) -> S3Bucket {
    let metrics = Arc::new(Metrics::new().expect("metrics"));
    S3Bucket::new(settings, metrics).expect("a client")
}
