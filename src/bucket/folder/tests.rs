use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;
use wasmkeep_supervisors::bucket::list_all;
use wasmkeep_supervisors::testing::BucketContract;

use super::*;

const WAIT: Wait = Wait::Record;
const LARGE_BYTES: usize = 3 << 20;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn opened(folder: &TempDir) -> FolderBucket {
    FolderBucket::open(&folder.path().join("bucket")).expect("a bucket")
}

/// Two openings of one folder, asked in turns, as two nodes have them.
struct InTurns([FolderBucket; 2], AtomicUsize);

impl InTurns {
    fn next(&self) -> &FolderBucket {
        &self.0[self.1.fetch_add(1, Ordering::Relaxed) % 2]
    }
}

impl Bucket for InTurns {
    fn get<'a>(&'a self, key: &'a str, wait: Wait) -> BucketFuture<'a, Result<Object, GetError>> {
        self.next().get(key, wait)
    }

    fn get_if_changed<'a>(
        &'a self,
        key: &'a str,
        etag: &'a ETag,
        wait: Wait,
    ) -> BucketFuture<'a, Result<Option<Object>, GetError>> {
        self.next().get_if_changed(key, etag, wait)
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        body: Bytes,
        cond: Cond,
        wait: Wait,
    ) -> BucketFuture<'a, Result<Written, PutError>> {
        self.next().put(key, body, cond, wait)
    }

    fn list<'a>(
        &'a self,
        from: ListFrom<'a>,
        wait: Wait,
    ) -> BucketFuture<'a, Result<Page, ListError>> {
        self.next().list(from, wait)
    }

    fn delete<'a>(&'a self, key: &'a str, wait: Wait) -> BucketFuture<'a, Result<(), DeleteError>> {
        self.next().delete(key, wait)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_holds_over_a_folder() {
    let folder = folder();
    let bucket = opened(&folder);
    BucketContract::new(Arc::new(bucket), Arc::new(SystemRandom), LARGE_BYTES).check().await;
    for made in ["objects", "coming"] {
        let left = fs::read_dir(folder.path().join("bucket").join(made)).expect("a folder");
        assert_eq!(left.count(), 0, "{made}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_holds_between_two_that_have_the_folder_open() {
    let folder = folder();
    let both = InTurns([opened(&folder), opened(&folder)], AtomicUsize::new(0));
    BucketContract::new(Arc::new(both), Arc::new(SystemRandom), LARGE_BYTES).check().await;
}

/// By then a write has come as far as the lock.
const UNTIL_IT_WAITS: Duration = Duration::from_millis(100);

#[test]
fn nobody_writes_while_another_looks_whether_its_condition_holds() {
    let folder = folder();
    let one = opened(&folder);
    for (key, other) in [("shares-it", one.clone()), ("has-its-own", opened(&folder))] {
        let file = one.0.objects.join(file_of(key));
        let writing = one.0.locked(|| {
            let writing = std::thread::spawn(move || other.0.put(key, b"late", &Cond::Absent));
            // However long this is, a write that waits passes; one that does not is caught.
            std::thread::sleep(UNTIL_IT_WAITS);
            assert!(!file.exists(), "{key}: it was written past the lock");
            write(&file, &etag_of(b"first"), b"first")?;
            io::Result::Ok(writing)
        });
        let outcome = writing.expect("written").join().expect("no panic");
        assert_eq!(outcome, Err(PutError::Mismatch), "{key}");
    }
}

async fn put(bucket: &FolderBucket, key: &str, body: &'static str) -> ETag {
    let written = bucket.put(key, Bytes::from_static(body.as_bytes()), Cond::Any, WAIT).await;
    written.expect("written").etag
}

#[tokio::test]
async fn the_next_process_finds_what_was_written_and_its_versions() {
    let folder = folder();
    let etag = put(&opened(&folder), "nodes/n1", "a lease").await;
    let bucket = opened(&folder);
    let object = bucket.get("nodes/n1", WAIT).await.expect("it is there");
    assert_eq!((&object.body[..], &object.etag), (&b"a lease"[..], &etag));
    let next = bucket.put("nodes/n1", Bytes::new(), Cond::Match(etag), WAIT).await;
    assert!(next.is_ok(), "{next:?}");
}

#[tokio::test]
async fn a_write_that_a_kill_cut_off_is_nothing() {
    let folder = folder();
    let bucket = opened(&folder);
    put(&bucket, "a/b", "before").await;
    let coming = folder.path().join("bucket/coming");
    fs::write(coming.join("now"), "wasmkeep obj").expect("a file");
    let old = File::create(coming.join("old")).expect("a file");
    old.set_modified(SystemTime::now() - 2 * LEFT_BEHIND).expect("an old file");
    let bucket = opened(&folder);
    let listed = list_all(&bucket, "", 10, WAIT).await.expect("listed");
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(&bucket.get("a/b", WAIT).await.expect("read").body[..], b"before");
    let left: Vec<_> = fs::read_dir(coming).expect("a folder").flatten().collect();
    assert_eq!(left.len(), 1, "what another may still write stays: {left:?}");
}

#[tokio::test]
async fn a_file_that_is_damaged_is_no_object_and_nobody_writes_over_it() {
    let folder = folder();
    let bucket = opened(&folder);
    let etag = put(&bucket, "a/b", "a body").await;
    let file = folder.path().join("bucket/objects/a.d/b.o");
    let whole = fs::read(&file).expect("the file");
    fs::write(&file, &whole[..whole.len() - 1]).expect("cut");
    let get = bucket.get("a/b", WAIT).await;
    assert!(matches!(get, Err(GetError::Unknown(Doubt::Unreadable(_)))), "{get:?}");
    for damaged in [&whole[..10], b"", &[b'x'; 100]] {
        fs::write(&file, damaged).expect("damaged");
        let get = bucket.get("a/b", WAIT).await;
        assert!(matches!(get, Err(GetError::Unknown(Doubt::Unreadable(_)))), "{get:?}");
        let put = bucket.put("a/b", Bytes::new(), Cond::Match(etag.clone()), WAIT).await;
        assert!(matches!(put, Err(PutError::Unknown(Doubt::Unreadable(_)))), "{put:?}");
        let list = list_all(&bucket, "a/", 10, WAIT).await;
        assert!(list.is_err(), "{list:?}");
    }
}

#[test]
fn a_folder_that_is_anothers_is_left_alone() {
    let folder = folder();
    let path = folder.path();
    fs::write(path.join("notes.txt"), "mine").expect("a file");
    let foreign = FolderBucket::open(path).err().expect("refused");
    assert!(matches!(foreign, FolderError::Foreign { .. }), "{foreign}");
    fs::remove_file(path.join("notes.txt")).expect("removed");
    fs::write(path.join("format"), "wasmkeep bucket 2\n").expect("a file");
    let newer = FolderBucket::open(path).err().expect("refused");
    assert!(newer.to_string().contains("Move the folder away"), "{newer}");
}
