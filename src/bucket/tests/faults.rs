use std::time::{Duration, Instant};

use bytes::Bytes;
use wasmkeep_supervisors::bucket::{Attempts, Expected, SetError, compare_and_set};
use wasmkeep_supervisors::ports::{
    Bucket, Cond, DeleteError, Doubt, GetError, ListError, ListFrom, PutError, Steady, Wait,
};
use wasmkeep_supervisors::testing::SteadyClock;
use wasmkeep_testbucket::{Dialect, Fault, Operation, TestBucket, What};

use super::*;

fn body(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

async fn put(bucket: &S3Bucket, text: &'static str, cond: Cond) -> Result<(), PutError> {
    bucket.put("records/a", body(text), cond, Wait::Record).await.map(|_| ())
}

fn attempts(clock: &SteadyClock, deadline: Duration) -> Attempts<'_> {
    let deadline = clock.now().plus(deadline);
    Attempts { wait: Wait::Lease, deadline, clock, may_send: &|| true, random: &SystemRandom }
}

#[tokio::test]
async fn nothing_is_tried_twice() {
    let store = TestBucket::start(Dialect::Aws);
    let bucket = connect(&settings(&store));
    for what in [What::LostAnswer, What::LostRequest, What::Status(500), What::Status(503)] {
        for operation in [Operation::Put, Operation::Get, Operation::List, Operation::Delete] {
            store.fails(&Fault::once(operation, what.clone()));
        }
        let before = store.counts();
        let put = put(&bucket, "x", Cond::Any).await;
        assert!(matches!(put, Err(PutError::Unknown(_))), "{what:?}: {put:?}");
        let get = bucket.get("records/a", Wait::Record).await;
        assert!(matches!(get, Err(GetError::Unknown(_))), "{what:?}: {get:?}");
        let from = ListFrom { prefix: "records/", after: None, keys_max: 10 };
        let list = bucket.list(from, Wait::Record).await;
        assert!(matches!(list, Err(ListError::Unknown(_))), "{what:?}: {list:?}");
        let delete = bucket.delete("records/a", Wait::Record).await;
        assert!(matches!(delete, Err(DeleteError::Unknown(_))), "{what:?}: {delete:?}");
        let after = store.counts();
        let came = [
            after.put - before.put,
            after.get - before.get,
            after.list - before.list,
            after.delete - before.delete,
        ];
        assert_eq!(came, [1; 4], "{what:?}");
    }
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_found_to_have_landed() {
    let clock = SteadyClock::new();
    let store = TestBucket::start(Dialect::Aws);
    let bucket = connect(&settings(&store));
    let faults = [What::LostAnswer, What::StatusAfterAll(500), What::StatusAfterAll(409)];
    for (at, what) in faults.into_iter().enumerate() {
        store.fails(&Fault::once(Operation::Put, what.clone()));
        let key = format!("records/{at}");
        let set = compare_and_set(
            &bucket,
            &key,
            body("mine"),
            Expected::Absent,
            attempts(&clock, Duration::from_secs(30)),
        );
        let written = set.await.unwrap_or_else(|error| panic!("{what:?}: {error}"));
        let object = bucket.get(&key, Wait::Record).await.expect("it is there");
        assert_eq!((object.etag, object.body), (written.etag, body("mine")));
    }
    assert_eq!(store.counts().put, 3);
}

#[tokio::test]
async fn an_attempt_that_lands_late_changes_nothing() {
    let clock = SteadyClock::new();
    let store = TestBucket::start(Dialect::Aws);
    let bucket = connect(&settings(&store));
    store.fails(&Fault::once(Operation::Put, What::Late(1500)));
    let set = |text, expected| {
        compare_and_set(
            &bucket,
            "records/a",
            body(text),
            expected,
            attempts(&clock, Duration::from_secs(30)),
        )
    };
    let first = set("mine", Expected::Absent).await.expect("sent again");
    set("next", Expected::Version(first.etag)).await.expect("written");
    let late = set("other", Expected::Absent).await;
    assert!(matches!(late, Err(SetError::Lost(Some(_)))), "{late:?}");
    let puts = store.counts().put;
    tokio::time::sleep(Duration::from_millis(2000)).await;
    let object = bucket.get("records/a", Wait::Record).await.expect("it is there");
    assert_eq!(object.body, "next", "after {puts} requests");
}

#[tokio::test]
async fn an_operation_ends_within_its_time() {
    let store = TestBucket::start(Dialect::Aws);
    let bucket = connect(&settings(&store));
    put(&bucket, "x", Cond::Any).await.expect("written");
    let longest = Wait::Lease.longest();
    for what in [What::Silent(60_000), What::SlowBody(60_000)] {
        store.fails(&Fault::once(Operation::Get, what.clone()));
        let began = Instant::now();
        let get = bucket.get("records/a", Wait::Lease).await;
        assert_eq!(get, Err(GetError::Unknown(Doubt::TimedOut(longest))), "{what:?}");
        let took = began.elapsed();
        assert!(took >= longest && took < Wait::Record.longest(), "{what:?}: {took:?}");
    }
    store.fails(&Fault::once(Operation::Get, What::SlowBody(300)));
    let object = bucket.get("records/a", Wait::Lease).await.expect("late, and in time");
    assert_eq!(object.body, "x");
}

#[tokio::test]
async fn a_page_that_ends_early_goes_on() {
    let store = TestBucket::start(Dialect::Aws);
    let bucket = connect(&settings(&store));
    for at in 0..9 {
        let key = format!("records/{at}");
        bucket.put(&key, body("x"), Cond::Any, Wait::Record).await.expect("written");
    }
    store.fails(&Fault { times: 3, ..Fault::once(Operation::List, What::Short(2)) });
    let all = wasmkeep_supervisors::bucket::list_all(&bucket, "records/", 9, Wait::Record).await;
    let keys: Vec<String> = all.expect("listed").into_iter().map(|object| object.key).collect();
    assert_eq!(keys, (0..9).map(|at| format!("records/{at}")).collect::<Vec<_>>());
    assert_eq!(store.counts().list, 4);
}

#[tokio::test]
async fn an_answer_that_is_no_answer_of_s3_is_not_taken_for_one() {
    let store = TestBucket::start(Dialect::Aws);
    let bucket = connect(&settings(&store));
    store.fails(&Fault::once(Operation::Get, What::Body("a proxy's page".into())));
    let get = bucket.get("records/a", Wait::Record).await;
    assert_eq!(get, Err(GetError::Unknown(Doubt::Version("no ETag"))));
    store.fails(&Fault::once(Operation::List, What::Body("a proxy's page".into())));
    let from = ListFrom { prefix: "", after: None, keys_max: 10 };
    let list = bucket.list(from, Wait::Record).await;
    assert!(matches!(list, Err(ListError::Unknown(Doubt::Unreadable(_)))), "{list:?}");
}

#[tokio::test]
async fn a_bucket_that_is_not_there_is_no_empty_one() {
    let store = TestBucket::start(Dialect::Aws);
    let url = "s3://another-bucket".parse().expect("a URL");
    let bucket = connect(&BucketSettings { url, ..settings(&store) });
    let get = bucket.get("records/a", Wait::Record).await;
    assert!(
        matches!(get, Err(GetError::Denied(ref denial)) if denial.code == "NoSuchBucket"),
        "{get:?}"
    );
    let put = put(&bucket, "x", Cond::Any).await;
    assert!(matches!(put, Err(PutError::Denied(_))), "{put:?}");
    let from = ListFrom { prefix: "", after: None, keys_max: 10 };
    let list = bucket.list(from, Wait::Record).await;
    assert!(matches!(list, Err(ListError::Denied(_))), "{list:?}");
}

#[tokio::test]
async fn wrong_credentials_are_denied_and_not_shown() {
    let store = TestBucket::start(Dialect::Aws);
    let good = settings(&store);
    let wrong_key = Credentials { access_key: "nobody".into(), ..good.credentials.clone() };
    let wrong_secret =
        Credentials { secret_key: "a-wrong-secret".into(), ..good.credentials.clone() };
    for (credentials, code) in
        [(wrong_key, "InvalidAccessKeyId"), (wrong_secret, "SignatureDoesNotMatch")]
    {
        let bucket = connect(&BucketSettings { credentials, ..good.clone() });
        let put = put(&bucket, "x", Cond::Any).await;
        let Err(PutError::Denied(denial)) = put else { panic!("{put:?}") };
        assert_eq!((denial.status, denial.code.as_str()), (403, code));
        assert!(!denial.to_string().contains("secret"), "{denial}");
    }
}

#[tokio::test]
async fn an_endpoint_that_does_not_answer_is_unknown_with_its_cause() {
    let store = TestBucket::start(Dialect::Aws);
    let settings = settings(&store);
    drop(store);
    let bucket = connect(&settings);
    let put = put(&bucket, "x", Cond::Absent).await;
    let Err(PutError::Unknown(Doubt::Connection(cause))) = put else { panic!("{put:?}") };
    assert!(cause.contains("refused"), "{cause}");
}

#[tokio::test]
async fn requests_are_counted_by_what_came_of_them() {
    let store = TestBucket::start(Dialect::Aws);
    let metrics = Arc::new(Metrics::new().expect("metrics"));
    let bucket = S3Bucket::new(&settings(&store), Arc::clone(&metrics)).expect("a client");
    let _ = put(&bucket, "x", Cond::Absent).await;
    let _ = put(&bucket, "y", Cond::Absent).await;
    store.fails(&Fault::once(Operation::Put, What::Status(500)));
    let _ = put(&bucket, "z", Cond::Any).await;
    store.fails(&Fault::once(Operation::Put, What::Status(403)));
    let _ = put(&bucket, "z", Cond::Any).await;
    let _ = bucket.get("records/missing", Wait::Record).await;
    store.fails(&Fault::once(Operation::Delete, What::Silent(10_000)));
    let left =
        tokio::time::timeout(Duration::from_millis(200), bucket.delete("records/a", Wait::Record));
    assert!(left.await.is_err());
    let families = metrics.registry.gather();
    let family = families.iter().find(|family| family.name() == "wasmkeep_bucket_requests_total");
    let mut counted: Vec<String> = family
        .expect("it is registered")
        .get_metric()
        .iter()
        .map(|metric| {
            let labels: Vec<&str> = metric.get_label().iter().map(|label| label.value()).collect();
            format!("{} {}", labels.join(" "), metric.get_counter().get_value())
        })
        .collect();
    counted.sort();
    let expected = [
        "delete unknown 1",
        "get ok 1",
        "put denied 1",
        "put mismatch 1",
        "put ok 1",
        "put unknown 1",
    ];
    assert_eq!(counted, expected);
}
