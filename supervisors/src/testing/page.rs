//! Pages of `docs` that hold tables made from the code.

/// Checks that the page holds this table between its marks `<!-- NAME -->` and `<!-- end of NAME -->`;
/// with `UPDATE_DOCS` set it writes the table there instead.
#[cfg(test)]
#[track_caller]
pub fn check_page(page: &str, name: &str, table: &str) {
    let path = format!("{}/../{page}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("the page is there");
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->\n"));
    let (before, rest) = text.split_once(&begin).expect("the table begins");
    let (found, after) = rest.split_once(&end).expect("the table ends");
    if found == table {
        return;
    }
    if std::env::var_os("UPDATE_DOCS").is_none() {
        panic!("{page} is out of date: run this test with UPDATE_DOCS=1");
    }
    std::fs::write(path, format!("{before}{begin}{table}{end}{after}")).expect("it is written");
}
