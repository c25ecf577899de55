//! Which modules of its crate a file names.

use super::rust_text::is_word;
use super::sources::Source;

/// A module directly below the crate's root, named by a path in a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Use {
    pub module: String,
    pub offset: usize,
    /// By `crate::`; the other way is `super::` out of the file's own module.
    pub by_crate: bool,
}

/// The names of the modules that a `lib.rs` declares, in order, tests left out.
pub fn declared_modules(lib: &Source) -> Vec<String> {
    let mut modules = Vec::new();
    for line in lib.code.lines() {
        let Some(name) = line.trim().strip_suffix(';') else {
            continue;
        };
        let mut words = name.split_whitespace().rev();
        let (Some(name), Some("mod")) = (words.next(), words.next()) else {
            continue;
        };
        modules.push(name.to_owned());
    }
    modules
}

/// The module a file belongs to, as a path below the crate's root: `src/edge/actor.rs` in `src/`
/// is `edge`, `actor`.
pub fn module_of<'a>(source: &'a Source, crate_folder: &str) -> Vec<&'a str> {
    let path = source.path.strip_prefix(crate_folder).unwrap_or(&source.path);
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let mut parts: Vec<&str> = path.split('/').collect();
    if matches!(parts.last(), Some(&("mod" | "lib" | "main"))) {
        parts.pop();
    }
    parts
}

/// Every module below the root that the file's code names: `crate::x`, `use crate::{x, y}`, and
/// `super::x` where it climbs to the root.
pub fn uses(source: &Source, crate_folder: &str) -> Vec<Use> {
    let depth = module_of(source, crate_folder).len();
    let code = &source.code;
    let mut uses = Vec::new();
    for start in super::rust_text::find_word(code, "crate::") {
        let before = code[..start].trim_end();
        // `$crate::x` belongs to a macro's expansion, `pub(in crate::x)` is no import.
        if !before.ends_with('$') && !before.ends_with("(in") {
            add(&mut uses, code, start + "crate::".len(), true);
        }
    }
    for start in super::rust_text::find_word(code, "super::") {
        if code[..start].ends_with("super::") {
            continue;
        }
        let mut end = start;
        let mut levels = 0;
        while code[end..].starts_with("super::") {
            levels += 1;
            end += "super::".len();
        }
        if levels == depth {
            add(&mut uses, code, end, false);
        }
    }
    uses
}

fn add(uses: &mut Vec<Use>, code: &str, start: usize, by_crate: bool) {
    for offset in heads(code.as_bytes(), start) {
        let name: String =
            code[offset..].bytes().take_while(|&byte| is_word(byte)).map(char::from).collect();
        let is_macro = code[offset + name.len()..].starts_with('!');
        if !is_macro && !matches!(name.as_str(), "" | "self" | "super") {
            uses.push(Use { module: name, offset, by_crate });
        }
    }
}

/// Where the first names of a path or of a group of paths start.
fn heads(code: &[u8], start: usize) -> Vec<usize> {
    if code.get(start) != Some(&b'{') {
        return vec![start];
    }
    let mut heads = Vec::new();
    let mut depth = 0;
    let mut expected = false;
    for (offset, &byte) in code.iter().enumerate().skip(start) {
        match byte {
            b'{' => {
                depth += 1;
                expected = depth == 1;
            }
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            b',' if depth == 1 => expected = true,
            byte if byte.is_ascii_whitespace() => {}
            _ if expected => {
                heads.push(offset);
                expected = false;
            }
            _ => {}
        }
    }
    heads
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(path: &str, text: &str) -> Vec<String> {
        let mut names: Vec<String> =
            uses(&Source::new(path, text), "src/").into_iter().map(|used| used.module).collect();
        names.sort();
        names
    }

    #[test]
    fn modules_are_read_in_order() {
        let lib = "//! x\npub mod b;\nmod a;\n#[cfg(test)]\nmod tests;\npub(crate) mod c;\npub use b::B;\n";
        assert_eq!(declared_modules(&Source::new("src/lib.rs", lib)), ["b", "a", "c"]);
    }

    #[test]
    fn crate_paths_are_found_everywhere() {
        let text = "use crate::{\n a::{X, Y},\n b,\n};\nfn f() -> crate::c::Z { crate::m!() }";
        assert_eq!(used("src/d/e.rs", text), ["a", "b", "c"]);
        assert!(used("src/d.rs", "// crate::a\npub(in crate::a) fn f() { $crate::b }").is_empty());
    }

    #[test]
    fn super_counts_where_it_climbs_to_the_root() {
        assert_eq!(used("src/d/mod.rs", "use super::{a, b::X};"), ["a", "b"]);
        assert_eq!(used("src/d/e.rs", "use super::super::a::X; use super::f::Y;"), ["a"]);
    }
}
