//! Who signed in. The cookie holds a name and a secret; the actor `account/NAME` knows whether the
//! secret is one of its sessions.

use serde::Deserialize;
use wasmkeep_sdk::actors::{self, Answer, CallError};
use wasmkeep_sdk::{Error, Request, Result, front, json};

use crate::answer;

const COOKIE: &str = "session";
pub const NO_COOKIE: &str = "session=; Path=/; Max-Age=0";
const LASTS_SECONDS: u32 = 14 * 24 * 3600;
const NAME_CHARS_MAX: usize = 30;

pub struct Session {
    pub name: String,
    secret: String,
}

#[derive(Deserialize)]
struct SignedUp {
    key: String,
    session: String,
}

#[derive(Deserialize)]
struct SignedIn {
    session: String,
}

impl Session {
    /// The session of a new account, and its key.
    pub fn sign_up(name: &str) -> Result<(Self, String)> {
        let SignedUp { key, session } = answer::of(ask(name, "/sign-up", ""))?.json()?;
        Ok((Self { name: name.to_owned(), secret: session }, key))
    }

    pub fn sign_in(name: &str, key: &str) -> Result<Self> {
        let SignedIn { session } = answer::of(ask(name, "/sign-in", key))?.json()?;
        Ok(Self { name: name.to_owned(), secret: session })
    }

    pub fn sign_out(&self) -> Result<()> {
        answer::of(ask(&self.name, "/sign-out", &self.secret))?;
        Ok(())
    }

    /// No script reads it, and no other site's form sends it along.
    pub fn cookie(&self, secure: bool) -> String {
        let secure = if secure { "; Secure" } else { "" };
        format!(
            "{COOKIE}={}.{}; Path=/; HttpOnly; SameSite=Lax; Max-Age={LASTS_SECONDS}{secure}",
            self.name, self.secret
        )
    }
}

/// The session of a request, if it has one that lasts.
pub fn of(request: &Request) -> Result<Option<Session>> {
    let Some((name, secret)) = request.cookie(COOKIE).and_then(|cookie| cookie.split_once('.'))
    else {
        return Ok(None);
    };
    if checked_name(name).is_err() {
        return Ok(None);
    }
    match answer::of(ask(name, "/check", secret)) {
        Ok(_) => Ok(Some(Session { name: name.to_owned(), secret: secret.to_owned() })),
        Err(error) if error.status_code() == 403 => Ok(None),
        Err(error) => Err(error),
    }
}

pub fn required(request: &Request) -> Result<Session> {
    of(request)?.ok_or_else(|| Error::status(401, "sign in first"))
}

/// A browser says which site a form or a WebSocket is of; another's is refused.
pub fn same_origin(request: &Request) -> Result<()> {
    let Some(origin) = request.header("origin") else { return Ok(()) };
    let host = origin.split_once("://").map(|(_, host)| host);
    if host == front::host(request) {
        return Ok(());
    }
    Err(Error::status(403, "this was sent by another site"))
}

/// A name is a part of an actor's address and of a cookie.
pub fn checked_name(name: &str) -> Result<String> {
    let name = name.trim().to_lowercase();
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(fits) {
        return Ok(name);
    }
    Err(Error::status(422, format!("a name has 1 to {NAME_CHARS_MAX} of a-z, 0-9 and -")))
}

fn ask(name: &str, path: &str, secret: &str) -> Result<Answer, CallError> {
    actors::call(format!("account/{name}")).post(path).json(&json!({ "secret": secret })).send()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_fits_into_an_address_and_a_cookie() {
        assert_eq!(checked_name(" Ann-2 ").ok().as_deref(), Some("ann-2"));
        for wrong in ["", "a.b", "a b", "ann;", "é", "a/b", &"x".repeat(31)] {
            assert!(checked_name(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_cookie_is_for_the_server_alone() {
        let session = Session { name: "ann".to_owned(), secret: "5e".to_owned() };
        let plain = session.cookie(false);
        assert!(plain.starts_with("session=ann.5e; Path=/; HttpOnly; SameSite=Lax"), "{plain}");
        assert!(!plain.contains("Secure") && session.cookie(true).ends_with("; Secure"));
    }
}
