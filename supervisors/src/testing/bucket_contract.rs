//! What every `Bucket` promises, tried out: the same for the one in memory, for the shell over a
//! store of its tests, and for real stores.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinSet;

use super::{SeededRandom, SteadyClock};
use crate::bucket::{Attempts, Expected, Nonce, SetError, compare_and_set, list_all};
use crate::ports::{
    Bucket, Cond, DeleteError, ETag, GetError, ListFrom, Object, PutError, Random, Steady, Wait,
    Written,
};

const WAIT: Wait = Wait::Upload;
const RACERS: usize = 32;

/// One bucket, and a folder in it that no other run writes to.
pub struct BucketContract {
    bucket: Arc<dyn Bucket>,
    random: Arc<dyn Random>,
    folder: String,
    large_bytes: usize,
}

impl BucketContract {
    pub fn new(bucket: Arc<dyn Bucket>, random: Arc<dyn Random>, large_bytes: usize) -> Self {
        let folder = format!("contract/{}/", Nonce::draw(&*random));
        Self { bucket, random, folder, large_bytes }
    }

    /// Panics with what does not hold. It deletes what it wrote when all does.
    pub async fn check(&self) {
        self.conditions_hold().await;
        self.a_condition_lets_one_of_many_win().await;
        self.compared_and_set_by_many_it_is_set_by_one().await;
        self.a_write_is_seen_at_once().await;
        self.what_has_not_changed_is_not_read_again().await;
        self.listings_are_in_order_and_go_on_after_a_key().await;
        self.bodies_of_all_sizes_come_back().await;
        self.odd_keys_come_back().await;
        self.keys_that_would_not_come_back_are_denied().await;
        self.the_bucket_has_a_clock().await;
        self.what_is_deleted_is_gone().await;
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.folder)
    }

    async fn put(&self, key: &str, body: &str, cond: Cond) -> Result<Written, PutError> {
        self.bucket.put(key, Bytes::copy_from_slice(body.as_bytes()), cond, WAIT).await
    }

    async fn set(&self, key: &str, body: &str, cond: Cond) -> ETag {
        let written = self.put(key, body, cond.clone()).await;
        written.unwrap_or_else(|error| panic!("put {key} if {cond:?}: {error}")).etag
    }

    async fn get(&self, key: &str) -> Object {
        let object = self.bucket.get(key, WAIT).await;
        object.unwrap_or_else(|error| panic!("get {key}: {error}"))
    }

    async fn conditions_hold(&self) {
        let key = self.key("conditions");
        let first = self.set(&key, "first", Cond::Absent).await;
        assert_eq!(self.put(&key, "x", Cond::Absent).await, Err(PutError::Mismatch));
        let second = self.set(&key, "second", Cond::Match(first.clone())).await;
        assert_ne!(first, second);
        let stale = self.put(&key, "x", Cond::Match(first)).await;
        assert_eq!(stale, Err(PutError::Mismatch), "a stale version was written over");
        let third = self.set(&key, "third", Cond::Any).await;
        assert_eq!(self.get(&key).await.etag, third);
        assert_eq!(self.get(&key).await.body, "third");

        let missing = self.put(&self.key("missing"), "x", Cond::Match(third)).await;
        let is_refused = matches!(missing, Err(PutError::Missing | PutError::Mismatch));
        assert!(is_refused, "a version of nothing: {missing:?}");
        let get = self.bucket.get(&self.key("missing"), WAIT).await;
        assert_eq!(get, Err(GetError::Missing));
    }

    async fn a_condition_lets_one_of_many_win(&self) {
        let key = self.key("race");
        for round in 0..5 {
            let cond = match round {
                0 => Cond::Absent,
                _ => Cond::Match(self.get(&key).await.etag),
            };
            let mut racers = JoinSet::new();
            for racer in 0..RACERS {
                let (bucket, key) = (Arc::clone(&self.bucket), key.clone());
                let (body, cond) = (format!("round {round}, racer {racer}"), cond.clone());
                racers.spawn(async move {
                    let put = bucket.put(&key, Bytes::from(body.clone()), cond, WAIT).await;
                    (body, put)
                });
            }
            let outcomes = racers.join_all().await;
            let won = outcomes.iter().filter(|(_, put)| put.is_ok()).count();
            assert!(won <= 1, "{won} racers were told that they won: {outcomes:?}");
            let is_known = |put: &Result<_, _>| matches!(put, Ok(_) | Err(PutError::Mismatch));
            let are_known = outcomes.iter().all(|(_, put)| is_known(put));
            assert!(won == 1 || !are_known, "nobody won: {outcomes:?}");
            let body = self.get(&key).await.body;
            for (own, put) in &outcomes {
                assert!(put.is_err() || body == *own, "the winner's body is not there");
            }
        }
    }

    async fn compared_and_set_by_many_it_is_set_by_one(&self) {
        let key = self.key("compare-and-set");
        for round in 0..3 {
            let expected = match round {
                0 => Expected::Absent,
                _ => Expected::Version(self.get(&key).await.etag),
            };
            let mut racers = JoinSet::new();
            for racer in 0..RACERS as u64 {
                let (bucket, key) = (Arc::clone(&self.bucket), key.clone());
                let (expected, body) = (expected.clone(), format!("set {round} by {racer}"));
                racers.spawn(async move {
                    let clock = SteadyClock::new();
                    let attempts = Attempts {
                        wait: WAIT,
                        deadline: clock.now().plus(Duration::from_secs(60)),
                        clock: &clock,
                        may_send: &|| true,
                        random: &SeededRandom::new(racer),
                    };
                    let body = Bytes::from(body);
                    let set = compare_and_set(&*bucket, &key, body.clone(), expected, attempts);
                    (body, set.await)
                });
            }
            let outcomes = racers.join_all().await;
            let body = self.get(&key).await.body;
            for (own, set) in outcomes {
                match set {
                    Ok(_) => assert_eq!(own, body, "another one's body is there"),
                    Err(SetError::Lost(Some(_))) => assert_ne!(own, body, "the winner lost"),
                    Err(error) => panic!("round {round}: {error}"),
                }
            }
        }
    }

    async fn a_write_is_seen_at_once(&self) {
        let key = self.key("seen/now");
        for round in 0..20 {
            let etag = self.set(&key, &format!("round {round}"), Cond::Any).await;
            assert_eq!(self.get(&key).await.body, format!("round {round}"));
            let listed = list_all(&*self.bucket, &self.key("seen/"), 10, WAIT).await;
            let listed = listed.expect("a listing");
            assert_eq!(listed.len(), 1);
            assert_eq!((&listed[0].key, &listed[0].etag), (&key, &etag), "round {round}");
        }
    }

    async fn what_has_not_changed_is_not_read_again(&self) {
        let key = self.key("changed");
        let etag = self.set(&key, "before", Cond::Any).await;
        assert_eq!(self.bucket.get_if_changed(&key, &etag, WAIT).await, Ok(None));
        self.set(&key, "after", Cond::Any).await;
        let changed = self.bucket.get_if_changed(&key, &etag, WAIT).await.expect("read");
        assert_eq!(changed.map(|object| object.body).as_deref(), Some(&b"after"[..]));
        let missing = self.bucket.get_if_changed(&self.key("missing"), &etag, WAIT).await;
        assert_eq!(missing, Err(GetError::Missing));
    }

    async fn page(&self, prefix: &str, after: Option<&str>, keys_max: u16) -> (Vec<String>, bool) {
        let (prefix, after) = (self.key(prefix), after.map(|after| self.key(after)));
        let from = ListFrom { prefix: &prefix, after: after.as_deref(), keys_max };
        let page = self.bucket.list(from, WAIT).await.expect("a page");
        let name = |key: String| key.strip_prefix(&self.folder).map(str::to_owned).expect("ours");
        (page.objects.into_iter().map(|object| name(object.key)).collect(), page.has_more)
    }

    async fn listings_are_in_order_and_go_on_after_a_key(&self) {
        // In the order of bytes `-` is before `/`, and that before digits and letters.
        let names = ["l-/x", "l/0", "l/1/a", "l/10", "l/2", "l/A", "l/a", "l/a-b", "l/a/b", "l0"];
        for name in names.iter().rev() {
            self.set(&self.key(name), name, Cond::Any).await;
        }
        assert_eq!(self.page("l", None, 1000).await, (owned(&names), false));
        let below = &names[1..9];
        assert_eq!(self.page("l/", None, 1000).await, (owned(below), false));
        for size in [1, 3, 8] {
            let mut all: Vec<String> = Vec::new();
            loop {
                let after = all.last().cloned();
                let (page, has_more) = self.page("l/", after.as_deref(), size).await;
                assert!(page.len() <= usize::from(size), "{page:?}");
                all.extend(page);
                if !has_more {
                    break;
                }
            }
            assert_eq!(all, owned(below), "in pages of {size}");
        }
        let (page, _) = self.page("l/", Some("l/1/zzz"), 2).await;
        assert_eq!(page, ["l/10", "l/2"], "after a key that is not there");
        assert_eq!(self.page("l/", Some("l/zzz"), 10).await, (vec![], false));
        assert_eq!(self.page("none/", None, 10).await, (vec![], false));
        let listed = list_all(&*self.bucket, &self.key("l/"), 100, WAIT).await.expect("listed");
        for object in listed {
            let read = self.get(&object.key).await;
            assert_eq!((object.bytes, object.etag), (read.body.len() as u64, read.etag));
        }
    }

    async fn bodies_of_all_sizes_come_back(&self) {
        for size in [0, 1, 4096, 100_000, self.large_bytes] {
            let mut body = vec![0; size];
            self.random.fill(&mut body);
            let (key, body) = (self.key("body"), Bytes::from(body));
            let put = self.bucket.put(&key, body.clone(), Cond::Any, WAIT).await;
            let etag = put.unwrap_or_else(|error| panic!("{size} bytes: {error}")).etag;
            let object = self.get(&key).await;
            assert!(object.body == body, "{size} bytes came back changed");
            assert_eq!(object.etag, etag, "{size} bytes");
        }
    }

    async fn odd_keys_come_back(&self) {
        let long = "x".repeat(500);
        let names = [
            "a b",
            "a+b",
            "a%2Fb",
            "a%20b",
            "é/ü",
            "日本",
            "a=b&c=d",
            "q?x#y",
            "(!*')~",
            "..c/d..",
            "a:b@c,d;e$f",
            "\"quoted\"",
            "<&>",
            "[{|}]^`",
            "back\\slash",
            "_",
            "-",
            long.as_str(),
        ];
        for name in names {
            let key = self.key(&format!("odd/{name}"));
            let etag = self.set(&key, name, Cond::Absent).await;
            self.set(&key, "replaced", Cond::Match(etag)).await;
            assert_eq!(self.get(&key).await.body, "replaced", "{name}");
            let (page, _) = self.page(&format!("odd/{name}"), None, 10).await;
            assert_eq!(page, [format!("odd/{name}")]);
        }
        let (page, has_more) = self.page("odd/", None, 100).await;
        assert_eq!((page.len(), has_more), (names.len(), false), "{page:?}");
    }

    async fn keys_that_would_not_come_back_are_denied(&self) {
        for key in ["/a", "a//b", "a/../b", ".", ""] {
            let put = self.put(key, "x", Cond::Any).await;
            assert!(matches!(put, Err(PutError::Denied(_))), "{key:?}: {put:?}");
            let get = self.bucket.get(key, WAIT).await;
            assert!(matches!(get, Err(GetError::Denied(_))), "{key:?}: {get:?}");
            let delete = self.bucket.delete(key, WAIT).await;
            assert!(matches!(delete, Err(DeleteError::Denied(_))), "{key:?}: {delete:?}");
        }
    }

    async fn the_bucket_has_a_clock(&self) {
        let key = self.key("clock");
        let put = self.put(&key, "x", Cond::Any).await.expect("written");
        let object = self.get(&key).await;
        let listed = list_all(&*self.bucket, &key, 1, WAIT).await.expect("listed");
        let written = put.date.expect("a write has its time");
        let read = object.date.expect("a read has its time");
        assert!(written <= read, "{written:?} then {read:?}");
        for modified in [object.modified, listed[0].modified] {
            let modified = modified.expect("an object has its time").0;
            assert!(modified.abs_diff(written.0) <= 5000, "{modified} and {written:?}");
        }
    }

    async fn what_is_deleted_is_gone(&self) {
        let listed = list_all(&*self.bucket, &self.folder, 10_000, WAIT).await.expect("listed");
        assert!(listed.len() > 20);
        for object in &listed {
            for _ in 0..2 {
                assert_eq!(self.bucket.delete(&object.key, WAIT).await, Ok(()), "{}", object.key);
            }
        }
        let get = self.bucket.get(&listed[0].key, WAIT).await;
        assert_eq!(get, Err(GetError::Missing));
        let left = list_all(&*self.bucket, &self.folder, 10_000, WAIT).await.expect("listed");
        assert!(left.is_empty(), "{left:?}");
        self.set(&listed[0].key, "anew", Cond::Absent).await;
        assert_eq!(self.bucket.delete(&listed[0].key, WAIT).await, Ok(()));
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}
