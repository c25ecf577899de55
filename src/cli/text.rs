//! How values are written for a person at a terminal, and so that they cannot take it over.

use std::fmt::Write as _;

use wasmkeep_supervisors::one_line::is_printable;

/// `text` with what is no printable character, and the backslash, as escapes.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character == '\\' {
            out.push_str("\\\\");
        } else if is_printable(character) {
            out.push(character);
        } else {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(character));
        }
    }
    out
}

/// As JSON, with what is no printable character as `\u…`: read back it is exact.
pub fn printable_json(value: &impl serde::Serialize) -> serde_json::Result<String> {
    let json = serde_json::to_string(value)?;
    if json.chars().all(is_printable) {
        return Ok(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if is_printable(character) {
            out.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    Ok(out)
}

/// `1.5 MiB`, in at most 10 characters.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Milliseconds since 1970 as `2026-11-29T21:20:00.123Z`.
pub fn time(ms: u64) -> String {
    let (seconds, ms) = (ms / 1000, ms % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    // Years that begin in March end with the leap day; 400 of them have 146,097 days.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// `in 3 min`, `5 s ago`.
pub fn from_now(ms: u64, now_ms: u64) -> String {
    let (apart, past) = (ms.abs_diff(now_ms), ms < now_ms);
    let text = match apart / 1000 {
        0 => format!("{apart} ms"),
        s @ 1..120 => format!("{s} s"),
        s @ 120..7200 => format!("{} min", s / 60),
        s @ 7200..172_800 => format!("{} h", s / 3600),
        s => format!("{} days", s / 86_400),
    };
    if past { format!("{text} ago") } else { format!("in {text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_take_over_a_terminal_is_escaped() {
        for (text, shown) in [
            ("room 1", "room 1"),
            ("100%", "100%"),
            ("a\\b", "a\\\\b"),
            ("it's \"it\"", "it's \"it\""),
            ("é e\u{301} 中 ไม้", "é e\u{301} 中 ไม้"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("\u{200b}\u{feff}\u{2028}", "\\u{200b}\\u{feff}\\u{2028}"),
            ("\u{1b}[2J\n\u{9b}", "\\u{1b}[2J\\u{a}\\u{9b}"),
        ] {
            assert_eq!(printable(text), shown);
            let json = printable_json(&text).expect("JSON");
            assert!(json.chars().all(is_printable), "{json}");
            assert_eq!(serde_json::from_str::<String>(&json).expect("JSON"), text);
        }
        assert_eq!(printable_json(&"\u{e0001}").expect("JSON"), r#""\udb40\udc01""#);
    }

    #[test]
    fn sizes_and_times() {
        for (count, shown) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (4096 * 3, "12.0 KiB"),
            (1024 * 1024 - 1, "1.0 MiB"),
            (1024 * 1024 * 1024, "1.0 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(count), shown);
        }
        for (ms, shown) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (1_798_761_599_001, "2026-12-31T23:59:59.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(time(ms), shown);
        }
        assert!(!time(u64::MAX).is_empty());
        for (ms, shown) in [
            (1_000_000, "in 0 ms"),
            (999_000, "1 s ago"),
            (1_180_000, "in 3 min"),
            (1_000_000 + 90_000_000, "in 25 h"),
            (1_000_000 + 864_000_000, "in 10 days"),
        ] {
            assert_eq!(from_now(ms, 1_000_000), shown);
        }
    }
}
