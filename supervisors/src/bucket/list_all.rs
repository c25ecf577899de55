//! A listing to its end.

use thiserror::Error;

use crate::limits::BUCKET_PAGE_KEYS_MAX;
use crate::ports::{Bucket, Denial, Doubt, ListError, ListFrom, Listed, Wait};

/// Why there is no whole listing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ListAllError {
    /// Half of a listing proves nothing, so none is given.
    #[error("more than {most} keys below {prefix:?}")]
    TooMany { prefix: String, most: usize },
    #[error(transparent)]
    Denied(Denial),
    #[error("not listed: {0}")]
    Unknown(Doubt),
}

impl From<ListError> for ListAllError {
    fn from(error: ListError) -> Self {
        match error {
            ListError::Denied(denial) => Self::Denied(denial),
            ListError::Unknown(doubt) => Self::Unknown(doubt),
        }
    }
}

/// All objects whose keys begin with `prefix`, in the order of their keys, at most `most`. A page may be
/// short without being the last.
pub async fn list_all(
    bucket: &dyn Bucket,
    prefix: &str,
    most: usize,
    wait: Wait,
) -> Result<Vec<Listed>, ListAllError> {
    let mut all: Vec<Listed> = Vec::new();
    loop {
        let after = all.last().map(|last| last.key.as_str());
        let from = ListFrom { prefix, after, keys_max: BUCKET_PAGE_KEYS_MAX };
        let page = bucket.list(from, wait).await?;
        // Without a later key the next page would be this one again.
        if page.has_more && page.objects.last().map(|last| last.key.as_str()) <= after {
            let cause = "a page that is not the last has no further keys".to_owned();
            return Err(ListAllError::Unknown(Doubt::Unreadable(cause)));
        }
        all.extend(page.objects);
        if all.len() > most {
            return Err(ListAllError::TooMany { prefix: prefix.to_owned(), most });
        }
        if !page.has_more {
            return Ok(all);
        }
    }
}
