//! Goes back from the head of a listing to what needs nothing older, and puts the database together.

use bytes::Bytes;

use super::error::HoldError;
use super::fetch::Fetches;
use super::replicas::Replicas;
use crate::address::Address;
use crate::bucket::Again;
use crate::history::{
    Assembly, Base, BrokenChain, IncompleteImage, Object, ObjectError, ObjectKey, Offered,
    PagesError, Position, Walk,
};
use crate::limits::{
    BUCKET_PAGE_KEYS_MAX, BUCKET_RECORD_WAIT, PAGES_ON_THREAD_MAX, RESTORE_FETCHES,
};
use crate::ownership::{AcquireError, FoundHistory, Right};
use crate::ports::{GetError, ListError, Restoring};

pub(super) struct Restore<'a> {
    replicas: &'a Replicas,
    found: &'a mut FoundHistory,
    walk: Walk,
    fetches: Fetches,
    /// Nothing is fetched ahead: the head alone is probably enough.
    is_probably_local: bool,
}

pub(super) struct Restored {
    pub head: Base,
    pub reset: Option<Position>,
    /// All of the chain was seen, or as much as tells that.
    pub knows_reset: bool,
    pub db_pages: u32,
    /// The file that was there is the head.
    pub is_local: bool,
}

/// One object of the chain, newest first.
struct Link {
    object: Object,
    bytes: Bytes,
}

/// A database on its way.
struct Image {
    assembly: Assembly,
    file: Box<dyn Restoring>,
}

impl<'a> Restore<'a> {
    pub fn new(
        replicas: &'a Replicas,
        right: &Right,
        found: &'a mut FoundHistory,
        head: Position,
    ) -> Self {
        let fetches = Fetches::new(replicas, right);
        let walk = Walk::from(head);
        Self { replicas, found, walk, fetches, is_probably_local: false }
    }

    /// Makes the actor's file the head. The one that is there stays if it is trusted to be exactly that:
    /// the same position, and the same segment there.
    pub async fn into_file(
        mut self,
        address: &Address,
        trusted: Option<Base>,
    ) -> Result<Restored, HoldError> {
        let mut image = None;
        let mut db_pages = 0;
        self.is_probably_local = trusted.is_some();
        while let Some(step) = self.step().await? {
            let head = self.walk.head();
            if let (None, Some(head)) = (&image, head)
                && trusted == Some(head)
            {
                return Ok(self.trusted(head, &step.link().object));
            }
            let Step::Apply(link) = step else { continue };
            let begun = match image.take() {
                Some(image) => image,
                None => {
                    db_pages = link.object.description.db_pages;
                    let file = self.replicas.parts.files.restore(address)?;
                    Image { assembly: Assembly::default(), file }
                }
            };
            image = Some(apply(begun, link).await?);
        }
        let head = self.walk.head().ok_or(AcquireError::LostRace)?;
        if let Some(Image { assembly, file }) = image {
            file.finish(assembly.finish().map_err(incomplete)?, head)?;
        }
        let reset = self.walk.reset();
        Ok(Restored { head, reset, knows_reset: true, db_pages, is_local: false })
    }

    /// The newest reset at or below the head: goes the same way and writes nothing.
    pub async fn look_for_reset(mut self) -> Result<Option<Position>, HoldError> {
        while self.step().await?.is_some() {}
        Ok(self.walk.reset())
    }

    fn trusted(&self, head: Base, object: &Object) -> Restored {
        let description = &object.description;
        Restored {
            head,
            reset: description.reset(),
            knows_reset: description.kind.is_whole(),
            db_pages: description.db_pages,
            is_local: true,
        }
    }

    /// The next object that says something; none when the chain is whole.
    async fn step(&mut self) -> Result<Option<Step>, HoldError> {
        loop {
            let wanted = self.wanted().await?;
            let Some(key) = wanted.first().copied() else { return Ok(None) };
            let most = if self.is_probably_local { 1 } else { RESTORE_FETCHES };
            self.is_probably_local = false;
            let ahead = self.walk.ahead(self.found.listing(), most);
            let Some(bytes) = self.fetches.get(key, &ahead, self.found).await? else {
                self.walk.unusable(key, None);
                continue;
            };
            match check(bytes.clone()).await {
                Err(error) => self.walk.unusable(key, Some(&error)),
                Ok(object) => match self.walk.offer(self.found.listing(), key, &object) {
                    Offered::Apply => return Ok(Some(Step::Apply(Link { object, bytes }))),
                    Offered::Learned => {
                        self.fetches.keep(key, bytes.clone());
                        return Ok(Some(Step::Learned(Link { object, bytes })));
                    }
                    Offered::Refused => {}
                },
            }
        }
    }

    async fn wanted(&mut self) -> Result<Vec<ObjectKey>, HoldError> {
        let parts = &self.replicas.parts;
        let mut again = Again::within(BUCKET_RECORD_WAIT, &*parts.clock, &*parts.random);
        loop {
            if let Some(wanted) = self.walk.wanted(self.found.listing()).map_err(broken)? {
                return Ok(wanted);
            }
            match self.found.more(&*parts.bucket, BUCKET_PAGE_KEYS_MAX).await {
                Ok(()) => {}
                Err(ListError::Denied(denial)) => return Err(AcquireError::Denied(denial).into()),
                Err(ListError::Unknown(doubt)) => {
                    if !again.pause().await {
                        return Err(AcquireError::Unknown(doubt).into());
                    }
                }
            }
        }
    }
}

enum Step {
    /// Its pages are the next older ones.
    Apply(Link),
    /// It is the head, and is asked for again if nothing else stands for it.
    Learned(Link),
}

impl Step {
    fn link(&self) -> &Link {
        match self {
            Step::Apply(link) | Step::Learned(link) => link,
        }
    }
}

async fn check(bytes: Bytes) -> Result<Object, ObjectError> {
    let is_large = bytes.len() > PAGES_ON_THREAD_MAX as usize * crate::history::PAGE_BYTES;
    off_thread(is_large, move || Object::check_bytes(&bytes)).await
}

async fn apply(mut image: Image, link: Link) -> Result<Image, HoldError> {
    let is_large = link.object.page_count() > PAGES_ON_THREAD_MAX;
    off_thread(is_large, move || {
        let Link { object, bytes } = link;
        let body = object.body();
        let body = &bytes[body.start as usize..body.end as usize];
        let write = |page, bytes: &[u8]| image.file.write(page, bytes);
        match image.assembly.apply(&object, body, write) {
            Ok(()) => Ok(image),
            Err(PagesError::Page(fault)) => Err(HoldError::Storage(fault)),
            Err(PagesError::Object(error)) => {
                Err(broken_by(format!("{}: {error}", object.description.key())))
            }
        }
    })
    .await
}

/// Runs what takes long apart from the threads that run actors.
pub(super) async fn off_thread<T: Send + 'static>(
    is_long: bool,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if !is_long {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    }
}

fn broken(chain: BrokenChain) -> HoldError {
    match chain.is_newer {
        true => HoldError::Newer(chain.to_string()),
        false => HoldError::Broken(chain.to_string()),
    }
}

fn incomplete(image: IncompleteImage) -> HoldError {
    broken_by(image.to_string())
}

fn broken_by(cause: String) -> HoldError {
    HoldError::Broken(format!("the history cannot be restored: {cause}"))
}

impl From<GetError> for AcquireError {
    fn from(error: GetError) -> Self {
        match error {
            GetError::Denied(denial) => AcquireError::Denied(denial),
            GetError::Unknown(doubt) => AcquireError::Unknown(doubt),
            // Who asks tells a missing object apart.
            GetError::Missing => AcquireError::LostRace,
        }
    }
}
