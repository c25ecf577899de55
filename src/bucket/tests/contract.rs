use std::sync::Arc;

use wasmkeep_supervisors::testing::BucketContract;
use wasmkeep_testbucket::{Dialect, TestBucket};

use super::*;

const LARGE_BYTES: usize = 8 << 20;

async fn keeps_the_contract(settings: &BucketSettings) -> Probed {
    let bucket = connect(settings);
    let probed = probe(&bucket, &SystemRandom).await.expect("fit for a cluster");
    let bucket = Arc::new(bucket.with_form(probed.form));
    BucketContract::new(bucket, Arc::new(SystemRandom), LARGE_BYTES).check().await;
    probed
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_holds_over_a_store_like_amazons() {
    let store = TestBucket::start(Dialect::Aws);
    let probed = keeps_the_contract(&settings(&store)).await;
    assert_eq!((probed.form, probed.has_dates), (ETagForm::Quoted, true));
    assert!(store.keys().is_empty(), "{:?}", store.keys());
    let whole = BucketSettings {
        url: format!("s3://{BUCKET}").parse().expect("a URL"),
        ..settings(&store)
    };
    keeps_the_contract(&whole).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_holds_over_a_store_like_ceph() {
    let store = TestBucket::start(Dialect::Ceph);
    let probed = keeps_the_contract(&settings(&store)).await;
    assert_eq!((probed.form, probed.has_dates), (ETagForm::Unquoted, true));
    assert!(store.keys().is_empty(), "{:?}", store.keys());
}

/// `cargo xtask ceph-test` sets the variables, and any other store can be tried the same way.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real store: WASMKEEP_TEST_S3_URL, _ENDPOINT, _ACCESS_KEY and _SECRET_KEY"]
async fn the_contract_holds_over_a_real_store() {
    let variable = |name: &str| {
        let name = format!("WASMKEEP_TEST_S3_{name}");
        std::env::var(&name).unwrap_or_else(|_| panic!("{name} is not set"))
    };
    let settings = BucketSettings {
        url: variable("URL").parse().expect("a URL"),
        endpoint: variable("ENDPOINT").parse().expect("an endpoint"),
        region: std::env::var("WASMKEEP_TEST_S3_REGION").unwrap_or_else(|_| "us-east-1".into()),
        addressing: Addressing::Path,
        credentials: Credentials {
            access_key: variable("ACCESS_KEY"),
            secret_key: variable("SECRET_KEY"),
            session_token: None,
        },
    };
    println!("{:?}", keeps_the_contract(&settings).await);
}
