//! One hash over everything a result was made from.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

pub struct Fingerprint(blake3::Hasher);

impl Fingerprint {
    pub fn new() -> Self {
        Self(blake3::Hasher::new())
    }

    /// Lengths go in too, so that no two lists of inputs look the same.
    pub fn add(&mut self, name: &str, bytes: &[u8]) {
        for part in [name.as_bytes(), bytes] {
            self.0.update(&(part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
    }

    pub fn add_file(&mut self, path: &Path) -> Result<()> {
        let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        self.add(&crate::repo::relative(path), &bytes);
        Ok(())
    }

    /// All sources below a folder except prose.
    pub fn add_folder(&mut self, folder: &Path) -> Result<()> {
        for path in crate::repo::files_below(folder)? {
            if path.extension().is_none_or(|extension| extension != "md") {
                self.add_file(&path)?;
            }
        }
        Ok(())
    }

    /// The contract: the WIT files, without the host bindings that live beside them.
    pub fn add_wit(&mut self, root: &Path) -> Result<()> {
        for path in crate::repo::files_below(&root.join("wit"))? {
            if path.extension().is_some_and(|extension| extension == "wit") {
                self.add_file(&path)?;
            }
        }
        Ok(())
    }

    pub fn hex(&self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(inputs: &[(&str, &str)]) -> String {
        let mut fingerprint = Fingerprint::new();
        for (name, text) in inputs {
            fingerprint.add(name, text.as_bytes());
        }
        fingerprint.hex()
    }

    #[test]
    fn every_name_and_every_byte_counts() {
        let first = of(&[("a", "bc"), ("d", "")]);
        assert_eq!(first, of(&[("a", "bc"), ("d", "")]));
        assert_ne!(first, of(&[("ab", "c"), ("d", "")]));
        assert_ne!(first, of(&[("a", "bc")]));
        assert_ne!(first, of(&[("a", "bd"), ("d", "")]));
    }
}
