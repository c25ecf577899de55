use std::path::Path;
use std::process::Command;

/// Builds a library that is loaded into a node, into this folder; its path. A C compiler is there,
/// since SQLite is built with one.
pub fn compile(source: &str, folder: &Path) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support").join(source);
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let library = folder.join("shim.so");
    let mut compile = Command::new(compiler);
    compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library);
    let done = compile.arg(source).output().expect("run the C compiler, `cc` or $CC");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    library.to_str().expect("a path of UTF-8").to_owned()
}
