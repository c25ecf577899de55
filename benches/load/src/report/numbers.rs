//! Numbers as people read them.

/// With commas: `12,345`.
pub fn whole(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub fn rate(per_second: f64) -> String {
    format!("{}/s", whole(per_second.round() as u64))
}

pub fn millis(micros: u64) -> String {
    format!("{:.2} ms", micros as f64 / 1000.0)
}

pub fn micros(micros: f64) -> String {
    format!("{micros:.1} µs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_have_commas() {
        let texts = [0, 12, 999, 1_000, 123_456, 1_234_567].map(whole);
        assert_eq!(texts, ["0", "12", "999", "1,000", "123,456", "1,234,567"]);
    }
}
