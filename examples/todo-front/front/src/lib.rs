//! The front of the to-do lists: who signed in, and pages. Both classes behind it are `internal`, so
//! there is no way to a list but through here.

mod answer;
mod page;
mod session;

use wasmkeep_sdk::{Error, Method, Request, Response, Result, actors, front, json};

use page::Item;
use session::Session;

fn handle(mut request: Request) -> Result<Response> {
    let answer = route(&mut request);
    answer.or_else(|error| match error.status_code() {
        503 => Ok(page::message(error.message()).status(503).header("retry-after", "1")),
        // Nothing a person did: the log gets it.
        500.. => Err(error),
        status => Ok(page::message(error.message()).status(status)),
    })
}

fn route(request: &mut Request) -> Result<Response> {
    match request.route() {
        (Method::Get, ["todo.css"]) => Ok(page::css()),
        (Method::Get, ["live.js"]) => Ok(page::js()),
        (Method::Get, []) => match session::of(request)? {
            Some(session) => list(&session),
            None => Ok(page::sign_in()),
        },
        (Method::Get, ["live"]) if front::wants_websocket(request) => {
            session::same_origin(request)?;
            let session = session::required(request)?;
            Ok(front::hand_off("list", &session.name, "/"))
        }
        (Method::Post, path) => {
            session::same_origin(request)?;
            post(request, path)
        }
        _ => Ok(Response::not_found()),
    }
}

fn post(request: &mut Request, path: &[&str]) -> Result<Response> {
    if let ["sign-up"] | ["sign-in"] = path {
        let form = request.form()?;
        let name = session::checked_name(form.get("name").unwrap_or_default())?;
        let secure = front::scheme(request) == "https";
        return match path {
            ["sign-up"] => {
                let (session, key) = Session::sign_up(&name)?;
                Ok(page::key(&name, &key).header("set-cookie", session.cookie(secure)))
            }
            _ => {
                let session = Session::sign_in(&name, form.get("key").unwrap_or_default())?;
                Ok(Response::redirect("/").header("set-cookie", session.cookie(secure)))
            }
        };
    }
    let session = session::required(request)?;
    let list = |path: String| actors::call(format!("list/{}", session.name)).post(path);
    let answer = match path {
        ["sign-out"] => {
            session.sign_out()?;
            return Ok(Response::redirect("/").header("set-cookie", session::NO_COOKIE));
        }
        ["items"] => {
            let form = request.form()?;
            let text = form.get("text").unwrap_or_default();
            list("/items".to_owned()).json(&json!({ "text": text })).send()
        }
        ["items", id, "toggle"] => list(format!("/items/{}/toggle", parse_id(id)?)).send(),
        ["items", id, "delete"] => {
            let path = format!("/items/{}", parse_id(id)?);
            actors::call(format!("list/{}", session.name)).delete(path).send()
        }
        _ => return Ok(Response::not_found()),
    };
    answer::of(answer)?;
    Ok(Response::redirect("/"))
}

fn list(session: &Session) -> Result<Response> {
    let answer = actors::call(format!("list/{}", session.name)).get("/items").send();
    Ok(page::list(&session.name, &answer::of(answer)?.json::<Vec<Item>>()?))
}

/// What goes into a path of the list's is a number, whatever a client wrote.
fn parse_id(id: &str) -> Result<i64> {
    id.parse().map_err(|_| Error::not_found("there is no such item"))
}

wasmkeep_sdk::front!(handle);
