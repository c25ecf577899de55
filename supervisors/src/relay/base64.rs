//! Bytes within a header: base64 with `-` and `_`, without padding. Pure.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

pub fn encode(bytes: &[u8], to: &mut String) {
    to.reserve(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let mut bits = 0;
        for at in 0..3 {
            bits = bits << 8 | u32::from(three.get(at).copied().unwrap_or(0));
        }
        for at in 0..=three.len() {
            let digit = bits >> (18 - 6 * at) & 0x3f;
            to.push(char::from(DIGITS[digit as usize]));
        }
    }
}

/// None for what `encode` does not write.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for four in text.chunks(4) {
        let mut bits = 0;
        for at in 0..4 {
            bits = bits << 6 | four.get(at).map_or(Some(0), |digit| value(*digit))?;
        }
        let count = match four.len() {
            4 => 3,
            3 if bits & 0xff == 0 => 2,
            2 if bits & 0xffff == 0 => 1,
            _ => return None,
        };
        bytes.extend_from_slice(&bits.to_be_bytes()[1..=count]);
    }
    Some(bytes)
}

fn value(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    };
    Some(value.into())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn encoded(bytes: &[u8]) -> String {
        let mut text = String::new();
        encode(bytes, &mut text);
        text
    }

    #[test]
    fn it_is_the_base64_of_urls() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg"),
            (b"fo", "Zm8"),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg"),
            (b"\xff\xfe\xfd", "__79"),
            (b"\xfb\xf0", "-_A"),
        ] {
            assert_eq!(encoded(bytes), text);
        }
    }

    #[test]
    fn what_is_never_written_is_not_read() {
        for text in ["Z", "Zh", "Zm9vY", "Zm9=", "Zm9v\n", "Zm+v", "Zm/v", "Zm8\u{e9}", "ZmF"] {
            assert_eq!(decode(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn bytes_come_back(bytes in vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(decode(encoded(&bytes).as_bytes()), Some(bytes));
        }

        #[test]
        fn one_text_for_each(text in vec(any::<u8>(), 0..40)) {
            if let Some(bytes) = decode(&text) {
                prop_assert_eq!(encoded(&bytes).into_bytes(), text);
            }
        }
    }
}
