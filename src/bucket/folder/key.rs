//! Where in the folder an object of a key is.
//!
//! `nodes/n1` is `nodes.d/n1.o`: the ends keep objects and folders apart, since one key may go on where
//! another one ends. A part that is longer than a file's name may be is cut into pieces: all but the
//! last are folders, and end with `.x`.

use std::path::{Path, PathBuf};

const OBJECT: &str = ".o";
const PART: &str = ".d";
const PIECE: &str = ".x";

/// File systems take names of 255 bytes.
const PIECE_BYTES_MAX: usize = 200;

/// The file of a key, below the folder of objects.
pub fn file_of(key: &str) -> PathBuf {
    let (folder, name) = folder_of(key);
    let mut path = folder;
    push(&mut path, name, OBJECT);
    path
}

/// The folder of all keys that begin so, and what of the beginning it does not say.
pub fn folder_of(beginning: &str) -> (PathBuf, &str) {
    let mut path = PathBuf::new();
    let Some((parts, rest)) = beginning.rsplit_once('/') else { return (path, beginning) };
    for part in parts.split('/') {
        push(&mut path, part, PART);
    }
    (path, rest)
}

fn push(path: &mut PathBuf, part: &str, end: &str) {
    let mut rest = part;
    while rest.len() > PIECE_BYTES_MAX {
        let (piece, more) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES_MAX));
        path.push(format!("{piece}{PIECE}"));
        rest = more;
    }
    path.push(format!("{rest}{end}"));
}

/// What a name in a folder of objects stands for.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry {
    /// An object, and its key.
    Object(String),
    /// A folder, and how all keys in it begin.
    Folder(String),
}

/// None for what no key has made. `so_far` is how the keys of the name's folder begin.
pub fn entry(so_far: &str, name: &Path) -> Option<Entry> {
    let name = name.to_str()?;
    if let Some(last) = name.strip_suffix(OBJECT) {
        return Some(Entry::Object(format!("{so_far}{last}")));
    }
    if let Some(part) = name.strip_suffix(PART) {
        return Some(Entry::Folder(format!("{so_far}{part}/")));
    }
    name.strip_suffix(PIECE).map(|piece| Entry::Folder(format!("{so_far}{piece}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_tells_its_key() {
        let long = format!("{}é{}/end", "x".repeat(199), "y".repeat(500));
        for key in ["a", "nodes/n1", "a.o/b", "a.d", "a.x/.o", "..a/b", "é/日本", &long] {
            let file = file_of(key);
            let parts: Vec<&Path> = file.iter().map(Path::new).collect();
            let (name, folders) = parts.split_last().expect("a name");
            let mut so_far = String::new();
            for folder in folders {
                match entry(&so_far, folder) {
                    Some(Entry::Folder(keys)) => so_far = keys,
                    other => panic!("{key}: {folder:?} is {other:?}"),
                }
            }
            assert_eq!(entry(&so_far, name), Some(Entry::Object(key.to_owned())));
            assert!(file.iter().all(|part| part.len() < 256), "{key}");
        }
    }

    #[test]
    fn no_key_is_in_the_way_of_another() {
        let keys = ["a", "a/b", "a.o", "a.o/b", "a.d", "a.d/b", "a.x", "a/b.o/c", "a/b.o"];
        let files: Vec<PathBuf> = keys.iter().map(|key| file_of(key)).collect();
        for (key, file) in keys.iter().zip(&files) {
            let below = files.iter().filter(|other| other.starts_with(file)).count();
            assert_eq!(below, 1, "{key}");
        }
    }

    #[test]
    fn the_folder_of_a_beginning_has_all_keys_that_begin_so() {
        let (folder, rest) = folder_of("state/t/a/seg");
        assert_eq!(rest, "seg");
        assert!(file_of("state/t/a/segments/x").starts_with(&folder));
        assert_eq!(folder_of("no"), (PathBuf::new(), "no"));
        assert_eq!(folder_of("l/"), (PathBuf::from("l.d"), ""));
    }

    #[test]
    fn what_no_key_has_made_is_nothing() {
        assert_eq!(entry("a/", Path::new("notes.txt")), None);
    }
}
