//! How large files are, beside what admired codebases show. Printed, never enforced.

use super::sources::{Source, Sources};

/// A file of this many lines is asked which verb it does twice.
const LARGE: usize = 450;
const LARGEST_SHOWN: usize = 3;

pub fn report(sources: &Sources) -> String {
    let mut files: Vec<&Source> = sources
        .rust_below("")
        .filter(|source| !source.is_test() && !source.path.starts_with("tests/"))
        .collect();
    files.sort_by_key(|source| std::cmp::Reverse(source.lines));
    let Some(middle) = files.get(files.len() / 2) else {
        return String::from("sizes: there is no Rust file\n");
    };
    let mut report = format!(
        "sizes: {} files, tests left out; median {} lines (admired: 100 to 180); largest: {}\n",
        files.len(),
        middle.lines,
        list(&files[..files.len().min(LARGEST_SHOWN)]),
    );
    let large = files.iter().take_while(|source| source.lines > LARGE).count();
    if large > 0 {
        report += &format!("sizes: over {LARGE} lines: {}\n", list(&files[..large]));
    }
    report
}

fn list(files: &[&Source]) -> String {
    let files: Vec<String> =
        files.iter().map(|source| format!("{} ({})", source.path, source.lines)).collect();
    files.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_files_are_named_and_tests_do_not_count() {
        let long = "x\n".repeat(451);
        let tested = format!("a\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
        let files = [("src/a.rs", long.as_str()), ("src/b.rs", &tested), ("src/tests.rs", &long)];
        let report = report(&Sources::of(&files));
        assert!(report.contains("sizes: 2 files"), "{report}");
        assert!(report.contains("over 450 lines: src/a.rs (451)\n"), "{report}");
    }
}
