//! A listing to its end.

use crate::ports::{Bucket, Doubt, ListError, ListFrom, Listed, Wait};

/// All objects whose keys begin with `prefix`, in the order of their keys, at most `most`; a longer
/// listing is an error, for half of one proves nothing. A page may be short without being the last.
pub async fn list_all(
    bucket: &dyn Bucket,
    prefix: &str,
    most: usize,
    wait: Wait,
) -> Result<Vec<Listed>, ListError> {
    let mut all: Vec<Listed> = Vec::new();
    loop {
        let after = all.last().map(|last| last.key.clone());
        let keys_max = crate::limits::BUCKET_PAGE_KEYS_MAX;
        let from = ListFrom { prefix, after: after.as_deref(), keys_max };
        let page = bucket.list(from, wait).await?;
        all.extend(page.objects);
        if all.len() > most {
            let cause = format!("more than {most} keys below {prefix:?}");
            return Err(ListError::Unknown(Doubt::Unreadable(cause)));
        }
        if !page.has_more {
            return Ok(all);
        }
    }
}
