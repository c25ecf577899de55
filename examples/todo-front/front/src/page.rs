//! The pages. They work without a script; with it, a list that changed elsewhere shows anew.

use serde::Deserialize;
use wasmkeep_sdk::Response;

const CSS: &str = include_str!("../page/todo.css");
const JS: &str = include_str!("../page/live.js");
const POLICY: &str = "default-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; img-src 'self' data:";

#[derive(Deserialize)]
pub struct Item {
    id: i64,
    text: String,
    done: bool,
}

pub fn css() -> Response {
    Response::text(CSS).header("content-type", "text/css; charset=utf-8")
}

pub fn js() -> Response {
    Response::text(JS).header("content-type", "text/javascript; charset=utf-8")
}

pub fn sign_in() -> Response {
    page(
        "To do",
        r#"<h1>To do</h1>
<form method="post" action="/sign-in"><h2>Sign in</h2>
<label>Name <input name="name" required maxlength="30" autocomplete="username"></label>
<label>Key <input name="key" type="password" required autocomplete="current-password"></label>
<button>Sign in</button></form>
<form method="post" action="/sign-up"><h2>New here</h2>
<label>Name <input name="name" required maxlength="30" autocomplete="username"></label>
<button>Sign up</button></form>"#,
    )
}

/// The one time a key is shown.
pub fn key(name: &str, key: &str) -> Response {
    let body = format!(
        r#"<h1>Welcome, {name}</h1>
<p>This is your key. Keep it: it is not shown again, and nothing else opens your list.</p>
<p><code id="key">{key}</code></p><p><a href="/">To my list</a></p>"#,
        name = escaped(name),
        key = escaped(key),
    );
    page("Your key", &body).header("cache-control", "no-store")
}

pub fn list(name: &str, items: &[Item]) -> Response {
    let rows: String = items.iter().map(row).collect();
    let body = format!(
        r#"<h1>To do</h1>
<form method="post" action="/items"><label>New <input name="text" required maxlength="200" autofocus></label>
<button>Add</button></form>
<ul>{rows}</ul>
<form method="post" action="/sign-out"><span>{name}</span> <button>Sign out</button></form>
<script src="/live.js" defer></script>"#,
        name = escaped(name),
    );
    page("To do", &body).header("cache-control", "no-store")
}

fn row(item: &Item) -> String {
    let (class, mark) = if item.done { ("done", "Not done") } else { ("", "Done") };
    let (id, text) = (item.id, escaped(&item.text));
    format!(
        r#"<li class="{class}"><span>{text}</span>
<form method="post" action="/items/{id}/toggle"><button aria-label="{mark}: {text}">{mark}</button></form>
<form method="post" action="/items/{id}/delete"><button aria-label="Delete: {text}">Delete</button></form></li>"#
    )
}

pub fn message(text: &str) -> Response {
    page(
        "To do",
        &format!(
            r#"<h1>To do</h1><p role="alert">{}</p><p><a href="/">Back</a></p>"#,
            escaped(text)
        ),
    )
}

fn page(title: &str, body: &str) -> Response {
    Response::html(format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <link rel=\"icon\" href=\"data:,\"><link rel=\"stylesheet\" href=\"/todo.css\"></head>\
         <body><main>{body}</main></body></html>"
    ))
    .header("content-security-policy", POLICY)
    .header("x-content-type-options", "nosniff")
}

/// Text as it stands in a page, also between quotes.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        assert_eq!(escaped(r#"<b a="1">'&'"#), "&lt;b a=&quot;1&quot;&gt;&#39;&amp;&#39;");
        let item = Item { id: 1, text: "<script>".to_owned(), done: false };
        assert!(!row(&item).contains("<script>"));
    }
}
