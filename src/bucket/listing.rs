//! A page of a listing, as XML.

use s3::serde_types::ListBucketResult;
use wasmkeep_supervisors::ports::{BucketTime, Doubt, ListFrom, Listed, Page};

use super::etag::{read_etag, read_timestamp};
use super::url::BucketUrl;

/// Reads a page. One that is not in order, goes on before where it should, or ends without saying
/// where it goes on is no answer: half a listing taken for a whole one loses data.
pub fn read_page(
    body: &[u8],
    url: &BucketUrl,
    from: &ListFrom<'_>,
    date: Option<BucketTime>,
) -> Result<Page, Doubt> {
    let unreadable = |cause: &str| Doubt::Unreadable(format!("a listing {cause}"));
    let text = std::str::from_utf8(body).map_err(|_| unreadable("is no UTF-8"))?;
    let read: Result<ListBucketResult, _> = quick_xml::de::from_str(text);
    let listing = read.map_err(|error| unreadable(&format!("cannot be read: {error}")))?;
    let mut objects = Vec::with_capacity(listing.contents.len());
    let mut last = from.after.unwrap_or_default().to_owned();
    for object in listing.contents {
        let Some(key) = url.key_of(&object.key).filter(|key| key.starts_with(from.prefix)) else {
            return Err(unreadable("has keys that were not asked for"));
        };
        if *key <= *last {
            return Err(unreadable("is not in the order of its keys"));
        }
        last = key.to_owned();
        objects.push(Listed {
            key: key.to_owned(),
            etag: read_etag(object.e_tag.as_deref())?,
            bytes: object.size,
            modified: read_timestamp(&object.last_modified),
        });
    }
    if listing.is_truncated && objects.is_empty() && from.keys_max > 0 {
        return Err(unreadable("has more, and no key to go on from"));
    }
    Ok(Page { objects, has_more: listing.is_truncated, date })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DATE: Option<BucketTime> = Some(BucketTime(5));

    fn page(keys: &[&str], is_truncated: bool) -> String {
        let contents: String = keys
            .iter()
            .map(|key| {
                format!(
                    "<Contents><Key>{key}</Key><LastModified>1970-01-01T00:00:01.000Z</LastModified>\
                     <ETag>&quot;abc&quot;</ETag><Size>3</Size><StorageClass>STANDARD</StorageClass>\
                     </Contents>"
                )
            })
            .collect();
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name>\
             <Prefix>p/</Prefix><MaxKeys>1000</MaxKeys><IsTruncated>{is_truncated}</IsTruncated>\
             {contents}</ListBucketResult>"
        )
    }

    fn read(xml: &str, after: Option<&str>) -> Result<Page, Doubt> {
        let url = "s3://bucket/p".parse().expect("a URL");
        read_page(xml.as_bytes(), &url, &ListFrom { prefix: "a/", after, keys_max: 10 }, DATE)
    }

    proptest! {
        #[test]
        fn no_bytes_upset_the_reading_of_a_page(
            body in prop::collection::vec(any::<u8>(), 0..300),
            at in 0usize..600,
        ) {
            let url = "s3://bucket/p".parse().expect("a URL");
            let from = ListFrom { prefix: "a/", after: None, keys_max: 10 };
            let _ = read_page(&body, &url, &from, DATE);
            // A page that is bent in one place may be read, but never with keys that are not below.
            let mut bent = page(&["p/a/1", "p/a/2"], true).into_bytes();
            let place = at % bent.len();
            bent.splice(place..place, body.into_iter().take(3));
            if let Ok(page) = read_page(&bent, &url, &from, DATE) {
                prop_assert!(page.objects.iter().all(|object| object.key.starts_with("a/")));
                prop_assert!(!page.has_more || !page.objects.is_empty());
            }
        }
    }

    #[test]
    fn a_page_is_read() {
        let read = read(&page(&["p/a/1", "p/a/2 &amp; 3"], true), None).expect("a page");
        assert_eq!((read.has_more, read.date), (true, DATE));
        let keys: Vec<&str> = read.objects.iter().map(|object| object.key.as_str()).collect();
        assert_eq!(keys, ["a/1", "a/2 & 3"]);
        let Listed { etag, bytes, modified, .. } = &read.objects[0];
        assert_eq!((etag.as_str(), *bytes, *modified), ("abc", 3, Some(BucketTime(1000))));
        assert_eq!(self::read(&page(&[], false), None).map(|page| page.objects.len()), Ok(0));
    }

    #[test]
    fn what_would_pass_for_less_than_there_is_is_no_page() {
        for (xml, after, cause) in [
            (page(&[], true), None, "no key to go on from"),
            (page(&["p/a/2", "p/a/1"], false), None, "not in the order"),
            (page(&["p/a/1", "p/a/1"], false), None, "not in the order"),
            (page(&["p/a/1"], false), Some("a/1"), "not in the order"),
            (page(&["p/b/1"], false), None, "not asked for"),
            (page(&["q/a/1"], false), None, "not asked for"),
            ("<ListBucketResult><Name>b".to_owned(), None, "cannot be read"),
            ("<html></html>".to_owned(), None, "cannot be read"),
            (String::new(), None, "cannot be read"),
        ] {
            let error = read(&xml, after).expect_err(&xml).to_string();
            assert!(error.contains(cause), "{error}");
        }
    }
}
